#include "api/rpc/connection.h"

#include <algorithm>
#include <boost/asio/cancellation_state.hpp>
#include <boost/asio/this_coro.hpp>
#include <exception>
#include <stdexcept>
#include <utility>

#include "api/metered.h"
#include "api/rpc/action.h"
#include "base/error.h"
#include "base/log.h"
#include "base/str.h"
#include "base/text.h"
#include "base/utf8.h"

namespace caisson::api::rpc {

namespace json = boost::json;

namespace {

constexpr std::size_t kMaxAtWork = 128;
constexpr std::size_t kMaxCancelling = 4;  // more: who has that many at work can still end some
constexpr auto kPiecesDeadline = std::chrono::seconds(60);  // from the first to the last
constexpr std::size_t kMaxUnsent = 1024;  // answers; who sends on without reading them waits
constexpr std::string_view kClipped = "\n... [output clipped to what the client can receive]";

// Cuts a text so that it has at most so many bytes, between characters.
void clip(json::string& text, std::size_t size) {
  if (text.size() <= size) return;
  text.resize(size - std::min(size, kClipped.size()));
  text.resize(text.size() - incomplete_utf8_tail(text));
  text += kClipped;
}

// Of a text that was not read to its end.
std::string claimed_sequence(const std::string& text) {
  try {
    return sequence_text(text);
  } catch (const std::out_of_range&) {
    return "-1";
  }
}

}  // namespace

Connection::Connection(const boost::asio::any_io_executor& executor, Runtime& runtime,
                       Channel& channel, Host host)
    : runtime_(runtime),
      channel_(channel),
      host_(std::move(host)),
      transfers_(runtime.settings().directory),
      tasks_(executor),
      room_(executor),
      pieces_timer_(executor) {
  if (!host_.instance.empty()) presence_.emplace(runtime_.door(), host_.instance);
}

Task<void> Connection::run() {
  // It ends with its channel and not before: what is at work refers to it.
  co_await boost::asio::this_coro::reset_cancellation_state(boost::asio::disable_cancellation());
  ++runtime_.services().hosts.connections;
  std::exception_ptr failure;
  try {
    co_await take_all();
  } catch (...) {
    failure = std::current_exception();
  }
  const auto left = at_work_;  // ending one changes the map
  for (const auto& [cancellation, work] : left) cancellation->cancel();
  co_await tasks_.finish();
  --runtime_.services().hosts.connections;
  if (failure) std::rethrow_exception(failure);
}

Task<void> Connection::take_all() {
  for (;;) {
    std::optional<std::string> text = co_await channel_.read();
    if (!text || !take(*text)) co_return;
    text.reset();
    while (tasks_.size() >= kMaxUnsent) co_await room_.wait();
  }
}

// False: the conversation is over.
bool Connection::take(const std::string& text) {
  std::exception_ptr failure;
  try {
    return take_text(text);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::busy) throw;
    failure = std::current_exception();
  }
  pieces_.reset();
  tasks_.spawn("answer a host", send(error_text(claimed_sequence(text), failure_text(failure))));
  return true;
}

bool Connection::take_text(const std::string& text) {
  std::optional<json::object> object = read_object(text, metered(host_.share));
  if (object) {
    pieces_.reset();
    return take_object(text, std::move(*object));
  }
  if (refuse_depth(text)) return true;
  if (host_.splits_messages) return take_piece(text);
  log::debug("a message that is no JSON object was ignored", "bytes", text.size());
  return true;
}

// True: the text is a request that was answered, because it is nested too deeply to be read.
bool Connection::refuse_depth(const std::string& text) {
  if (!is_too_deep(text) || find_raw(text, "action").empty()) return false;
  const std::string sentence = str("ValueError: the data of a request may be nested ", kMaxDepth,
                                   " levels deep, and this is deeper");
  tasks_.spawn("answer a host", send(error_text(claimed_sequence(text), sentence)));
  return true;
}

// Old hosts send a long message as several; none of them is complete by itself.
bool Connection::take_piece(const std::string& text) {
  if (pieces_ && pieces_->text.size() + text.size() >= kMaxMessage) pieces_.reset();
  if (!pieces_) {
    if (!trim(text).starts_with('{')) return true;
    json::parse_options options;
    options.max_depth = kMaxDepth + 1;
    const json::storage_ptr storage = metered(host_.share);
    pieces_ = std::make_shared<Pieces>();
    pieces_->held = net::Charge(host_.share);
    pieces_->parser.emplace(storage, options);
    pieces_->parser->reset(storage);
    pieces_timer_.expires_after(kPiecesDeadline);
    pieces_timer_.async_wait([weak = std::weak_ptr(pieces_)](const boost::system::error_code& e) {
      const std::shared_ptr<Pieces> pieces = e ? nullptr : weak.lock();
      if (!pieces) return;
      pieces->parser.reset();
      pieces->text = std::string();
      pieces->held = net::Charge();
    });
  }
  if (!pieces_->parser) {  // its time is up
    pieces_.reset();
    return take_piece(text);
  }
  if (!pieces_->held.resize(2 * (pieces_->text.size() + text.size()))) {
    throw Error(ErrorCode::busy,
                "the daemon has no room for a message in pieces; try again in a moment");
  }
  pieces_->text += text;
  json::error_code error;
  pieces_->parser->write_some(text, error);
  if (!error && !pieces_->parser->done()) return true;
  const std::shared_ptr<Pieces> whole = std::exchange(pieces_, nullptr);
  whole->parser.reset();
  if (error && refuse_depth(whole->text)) return true;
  std::optional<json::object> object =
      error ? std::nullopt : read_object(whole->text, metered(host_.share));
  return !object || take_object(whole->text, std::move(*object));
}

bool Connection::take_object(std::string_view text, json::object object) {
  if (!is_request(object)) return true;
  if (!host_.instance.empty() && !runtime_.door().trust(host_.instance)) return false;
  std::string sequence = sequence_text(text);
  const json::string* action = object.at("action").if_string();
  const bool cancels = action != nullptr && *action == kCancelAction;
  if (at_work_.size() >= kMaxAtWork + (cancels ? kMaxCancelling : 0)) {
    tasks_.spawn("answer a host",
                 send(error_text(sequence, str("Runtime connection is busy (max ", kMaxAtWork,
                                               " concurrent actions)"))));
    return true;
  }
  auto cancellation = std::make_shared<Cancellation>();
  at_work_.emplace(cancellation, Work{.sequence = sequence});
  tasks_.spawn("answer a host",
               answer(std::move(sequence), std::move(object), std::move(cancellation)));
  return true;
}

Task<void> Connection::answer(std::string sequence, json::object message,
                              std::shared_ptr<Cancellation> cancellation) {
  std::string text;
  std::exception_ptr failure;
  try {
    Request request = read_request(std::move(message));
    at_work_.at(cancellation).tenant = request.tenant;
    json::object data = co_await perform(std::move(request), cancellation);
    text = fitting_answer(sequence, std::move(data));
  } catch (...) {
    failure = std::current_exception();
  }
  HostCounts& counts = runtime_.services().hosts;
  ++counts.requests;
  if (failure) {
    ++counts.failures;
    text = error_text(sequence, failure_text(failure));
  }
  if (!cancellation->cancelled()) co_await channel_.write(std::move(text));
  at_work_.erase(cancellation);
  room_.notify();
}

bool Connection::cancel(const std::string& sequence, const std::optional<session::Tenant>& tenant) {
  for (const auto& [cancellation, work] : at_work_) {
    if (work.sequence != sequence || work.tenant != tenant) continue;
    const std::shared_ptr<Cancellation> found = cancellation;  // ending it changes the map
    found->cancel();
    return true;
  }
  return false;
}

Task<void> Connection::send(std::string text) {
  co_await channel_.write(std::move(text));
  room_.notify();
}

std::string Connection::fitting_answer(const std::string& sequence, json::object data) const {
  std::string text = answer_text(sequence, data, std::size_t{4} * kMaxMessage);
  if (text.size() <= host_.max_answer) return text;
  // What can be cut is what a command wrote; escapes make it longer by a factor that it has all
  // through.
  for (std::size_t size = host_.max_answer / 2; size > 1024; size /= 2) {
    bool any = false;
    for (const char* name : {"stdout", "stderr"}) {
      json::value* output = data.if_contains(name);
      if (output == nullptr || !output->is_string()) continue;
      clip(output->get_string(), size);
      any = true;
    }
    if (!any) break;
    text = answer_text(sequence, data, std::size_t{4} * kMaxMessage);
    if (text.size() <= host_.max_answer) return text;
  }
  return answer_text(sequence, data, host_.max_answer);
}

// The instance must be the one that may speak here, and the connection must have said that it is
// its own. By standard input a host says so with its first context.
void Connection::check_context(const Request& request) {
  if (!request.tenant) return;
  const std::string& instance = request.tenant->instance;
  Door& door = runtime_.door();
  if (host_.instance.empty() && !host_.is_parent) {
    throw Error(ErrorCode::forbidden,
                str("Box action context on a connection that names no instance: connect with the "
                    "header ",
                    kInstanceHeader));
  }
  if (host_.instance.empty() && door.trust(instance)) {
    host_.instance = instance;
    presence_.emplace(door, instance);
  }
  if (instance == host_.instance && instance == door.trusted_instance()) return;
  throw Error(ErrorCode::forbidden, "Box action context does not match the trusted instance");
}

Task<json::object> Connection::perform(Request request,
                                       std::shared_ptr<Cancellation> cancellation) {
  const Action* action = find_action(request.action);
  if (action == nullptr) {
    throw Fault("ValueError", str("Action ", request.action, " not found"));
  }
  check_context(request);
  auto cancel_other = [this, tenant = request.tenant](const std::string& sequence) {
    return cancel(sequence, tenant);
  };
  Call call{.runtime = runtime_,
            .transfers = transfers_,
            .instance = host_.instance,
            .legacy = host_.legacy && !request.tenant,
            .shown_token = host_.shown_token,
            .from_parent = host_.is_parent,
            .domain = request.tenant ? Domain(*request.tenant) : Domain(),
            .data = std::move(request.data),
            .cancellation = std::move(cancellation),
            .cancel_other = std::move(cancel_other)};
  if (action->scope == Scope::host) co_return co_await action->run(std::move(call));
  if (!request.tenant) {
    if (!host_.legacy || runtime_.admission().required()) {
      throw Error(ErrorCode::forbidden, "Box tenant action requires a trusted Workspace context");
    }
    co_return co_await action->run(std::move(call));
  }
  const session::Tenant tenant = *request.tenant;
  co_await runtime_.enter(tenant, action->scope == Scope::sandbox);
  std::exception_ptr failure;
  json::object data;
  try {
    data = co_await action->run(std::move(call));
  } catch (...) {
    failure = std::current_exception();
  }
  co_await runtime_.leave(tenant);  // whoever has been replaced is told so, whatever came of it
  if (failure) std::rethrow_exception(failure);
  co_return data;
}

}  // namespace caisson::api::rpc
