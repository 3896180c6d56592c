// caisson.v1: docs/processes.md has the messages.
#include <algorithm>
#include <array>
#include <boost/asio/this_coro.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <string_view>
#include <utility>

#include "api/relay.h"
#include "api/rest/rest.h"
#include "async/task_group.h"
#include "base/error.h"
#include "base/str.h"
#include "base/text.h"
#include "journal/follower.h"
#include "model/managed_process.h"
#include "model/object_reader.h"

namespace caisson::api {

namespace json = boost::json;

namespace {

constexpr std::size_t kHeader = 9;  // a stream and a number in eight bytes, the highest first

enum class Stream : char { in = 0, out = 1, err = 2 };

const char* name_of(Stream stream) {
  return stream == Stream::out ? "stdout" : "stderr";
}

std::string data_message(Stream stream, std::uint64_t offset, std::string_view bytes) {
  std::string message(1, static_cast<char>(stream));
  for (int shift = 56; shift >= 0; shift -= 8) {
    message.push_back(static_cast<char>((offset >> shift) & 0xFF));
  }
  message.append(bytes);
  return message;
}

std::uint64_t number_of(std::string_view message) {
  std::uint64_t number = 0;
  for (const char c : message.substr(1, 8)) number = number << 8 | static_cast<unsigned char>(c);
  return number;
}

Task<bool> tell(Relay& relay, json::object event) {
  co_return co_await relay.socket.write_text(json::serialize(event));
}

Task<bool> greet(Relay& relay, std::uint64_t from) {
  session::ManagedProcess& process = *relay.process;
  json::object hello{{"type", "hello"},
                     {"pid", process.pid()},
                     {"running", process.running()},
                     {"tty", process.spec().tty},
                     {"from", from},
                     {"stdout", rest::range_json(process.out())},
                     {"stderr", rest::range_json(process.err())},
                     {"last_sequence", process.streams().last_sequence()}};
  co_return co_await tell(relay, std::move(hello));
}

Task<bool> tell_end(Relay& relay) {
  json::object event = rest::end_json(relay.process->last_end());
  event["type"] = "exit";
  co_return co_await tell(relay, std::move(event));
}

// Until the end of the stream, or the client's. With an attachment, what the connection has taken
// is delivered.
Task<bool> give_stream(RelayPtr relay, std::shared_ptr<Attachment> attachment, Stream stream,
                       std::uint64_t from) {
  session::ProcessStreams& streams = relay->process->streams();
  journal::Follower follower(stream == Stream::out ? streams.out() : streams.err(), from);
  for (;;) {
    const journal::Chunk chunk = co_await follower.next();
    if (chunk.kind == journal::Chunk::Kind::ended) co_return true;
    bool taken = false;
    if (chunk.kind == journal::Chunk::Kind::truncated) {
      json::object event{{"type", "truncated"},
                         {"stream", name_of(stream)},
                         {"from", chunk.offset},
                         {"to", chunk.next}};
      taken = co_await tell(*relay, std::move(event));
    } else {
      taken = co_await relay->socket.write_binary(data_message(stream, chunk.offset, chunk.bytes));
    }
    if (!taken) co_return false;
    if (attachment) attachment->deliver(chunk.next);
  }
}

Task<void> give_errors(RelayPtr relay, std::uint64_t from, std::shared_ptr<Event> given) {
  co_await give_stream(relay, nullptr, Stream::err, from);
  given->set();
}

// How it ended comes after all that it wrote.
Task<void> give_all(RelayPtr relay, std::shared_ptr<Attachment> attachment, std::uint64_t from,
                    std::shared_ptr<Event> errors_given) {
  if (co_await give_stream(relay, attachment, Stream::out, from)) {
    co_await relay->process->ended().wait();
    co_await errors_given->wait();
    co_await tell_end(*relay);
  }
  relay->done.set();
}

void confirm(session::ManagedProcess& process, Attachment* attachment, std::int64_t offset) {
  if (attachment == nullptr) return;
  if (offset < 0 || static_cast<std::uint64_t>(offset) > process.out().end()) {
    throw Error(ErrorCode::validation_error, str("offset: ", offset, " was never sent"));
  }
  attachment->deliver(static_cast<std::uint64_t>(offset));
}

// The attachment is that of a client that confirms, at a process that runs.
void obey(session::ManagedProcess& process, Attachment* attachment, const std::string& text) {
  const json::value value = json::parse(text);
  model::ObjectReader reader(value, "");
  const auto type = reader.required<std::string>("type");
  if (type == "close_input") {
    process.streams().close_input();
  } else if (type == "resize") {
    process.streams().resize({.rows = model::read_terminal_size(reader, "rows"),
                              .columns = model::read_terminal_size(reader, "columns")});
  } else if (type == "signal") {
    process.signal(model::read_signal(reader, "signal"));
  } else if (type == "confirm") {
    confirm(process, attachment, reader.required<std::int64_t>("offset"));
  } else {
    reader.fail("type", "must be close_input, confirm, resize or signal");
  }
}

// Empty: it was fine.
Task<std::string> take_message(Relay& relay, Attachment* attachment, net::Message message) {
  session::ManagedProcess& process = *relay.process;
  if (message.kind == net::MessageKind::text) {
    try {
      obey(process, attachment, message.data);
    } catch (const std::exception& error) {
      co_return str("message: ", error.what());
    }
    co_return "";
  }
  if (message.data.size() < kHeader || message.data[0] != static_cast<char>(Stream::in)) {
    co_return "message: not a 0, a number in eight bytes and what is to be written";
  }
  const std::uint64_t sequence = number_of(message.data);
  message.data.erase(0, kHeader);
  const bool written = co_await process.streams().write(sequence, std::move(message.data));
  if (written) process.touch();
  json::object event{{"type", written ? "written" : "input_closed"}, {"sequence", sequence}};
  co_await tell(relay, std::move(event));
  co_return "";
}

Task<void> take_all(RelayPtr relay, bool mute, std::shared_ptr<Attachment> attachment) {
  while (std::optional<net::Message> message = co_await relay->socket.read()) {
    std::string fault = mute ? "message: an observer has nothing to say"
                             : co_await take_message(*relay, attachment.get(), std::move(*message));
    if (fault.empty()) continue;
    co_await relay->socket.close({net::CloseCode::policy_violation, std::move(fault)});
    break;
  }
  relay->done.set();
}

void check_offset(const std::optional<std::uint64_t>& offset, const journal::Journal& journal,
                  const char* name) {
  if (!offset || *offset <= journal.end()) return;
  throw Error(ErrorCode::validation_error,
              str(name, ": ", *offset, " lies behind the end, ", journal.end()));
}

}  // namespace

OffsetsRequest read_offsets_request(const net::Request& request,
                                    const session::ManagedProcess& process) {
  OffsetsRequest asked{.from = rest::find_number(request, "from"),
                       .err_from = rest::find_number(request, "stderr_from")};
  check_offset(asked.from, process.out(), "from");
  check_offset(asked.err_from, process.err(), "stderr_from");
  if (const std::string* confirms = request.find_query("confirm")) {
    if (*confirms != "true" && *confirms != "false") {
      throw Error(ErrorCode::validation_error, "confirm: must be true or false");
    }
    asked.confirms = *confirms == "true";
  }
  const std::string* mode = request.find_query("attach");
  if (mode == nullptr || *mode == "wait") return asked;
  if (*mode == "takeover") {
    asked.mode = OffsetsRequest::Mode::takeover;
  } else if (*mode == "observe") {
    asked.mode = OffsetsRequest::Mode::observe;
  } else {
    throw Error(ErrorCode::validation_error, "attach: must be wait, takeover or observe");
  }
  return asked;
}

Task<void> relay_offsets(RelayPtr relay, OffsetsRequest request) {
  session::ManagedProcess& process = *relay->process;
  const auto executor = co_await boost::asio::this_coro::executor;
  const bool observes = request.mode == OffsetsRequest::Mode::observe || !process.running();
  std::optional<Turns::Turn> turn;
  if (!observes) {
    if (request.mode == OffsetsRequest::Mode::takeover) process.take_over();
    turn = co_await wait_for_turn(relay);
    if (!turn) co_return;
  }
  const std::uint64_t from = request.from.value_or(undelivered(process));
  std::shared_ptr<Attachment> attachment;
  if (turn) attachment = std::make_shared<Attachment>(relay->process, std::move(*turn), from);
  if (!co_await greet(*relay, from)) co_return;
  const auto errors_given = std::make_shared<Event>(executor);
  TaskGroup tasks(executor);
  if (request.err_from) {
    tasks.spawn("relay errors", give_errors(relay, *request.err_from, errors_given));
  } else {
    errors_given->set();
  }
  const std::shared_ptr<Attachment> nobody;
  tasks.spawn("relay output",
              give_all(relay, request.confirms ? nobody : attachment, from, errors_given));
  const bool mute = request.mode == OffsetsRequest::Mode::observe;
  tasks.spawn("relay input", take_all(relay, mute, request.confirms ? attachment : nobody));
  if (attachment) tasks.spawn("relay takeover", end_when_taken_over(relay));
  co_await relay->done.wait();
  co_await tasks.stop();
}

}  // namespace caisson::api
