#include "api/relay.h"

#include <algorithm>
#include <boost/asio/this_coro.hpp>
#include <utility>
#include <vector>

#include "api/api.h"
#include "api/rpc/door.h"
#include "async/cancellation.h"
#include "async/task_group.h"
#include "base/error.h"
#include "base/log.h"
#include "base/str.h"
#include "base/text.h"
#include "base/utf8.h"
#include "journal/follower.h"
#include "journal/lines.h"
#include "net/handshake.h"

namespace caisson::api {

namespace {

constexpr std::uint64_t kMaxMessage = 16u << 20;
constexpr std::size_t kTogether = 64u << 10;  // about so much is moved at once
constexpr std::size_t kDelivered = journal::Journal::kDelivered;
constexpr net::CloseCode kTakenOver{4000};
constexpr const char* kNoRoomText = "there is no room for a long line; try again in a moment";
constexpr const char* kTakenOverText = "another client has taken over";
constexpr const char* kCutOffText = "a line is too long for the relay; its rest is cut off";
constexpr const char* kRefusedText = "a client refused a line as too long; nobody gets it";

using Process = std::shared_ptr<session::ManagedProcess>;

std::string name_of(const session::ManagedProcess& process) {
  return str(printable(process.session_id()), "/", printable(process.spec().process_id));
}

// Every message of the client is a line for the process. Those that have come are written together.
Task<void> take_lines(RelayPtr relay) {
  while (std::optional<net::Message> message = co_await relay->socket.read()) {
    std::vector<std::string> lines;
    std::vector<net::Charge> held;  // until they are written
    std::size_t bytes = 0;
    for (; message; message = bytes < kTogether ? relay->socket.read_now() : std::nullopt) {
      if (message->kind != net::MessageKind::text) continue;
      bytes += message->data.size();
      lines.push_back(std::move(message->data));
      held.push_back(std::move(message->held));
    }
    if (lines.empty()) continue;
    if (!co_await relay->process->streams().write_lines(std::move(lines))) break;
    relay->process->touch();
  }
  relay->done.set();
}

// A box can have as many of these as it likes.
void notice_line(session::ManagedProcess& process, std::string_view event, std::uint64_t offset) {
  const std::optional<std::uint64_t> others = process.line_notices().let_through();
  if (!others) return;
  log::warning(event, "process", name_of(process), "offset", offset, "others_since", *others);
}

// Lines on their way to the client: short ones go together.
class Outgoing {
 public:
  Outgoing(Relay& relay, Attachment& attachment) : relay_(relay), attachment_(attachment) {}

  // False: the client takes no more.
  Task<bool> give(journal::Line line) {
    if (!line.cut_off && line.size <= kShort) {
      bytes_ += line.size;
      texts_.push_back(repair_utf8(std::move(*line.text)));
      nexts_.push_back(line.next);
      co_return bytes_ < kTogether || co_await flush();
    }
    if (!co_await flush()) co_return false;
    bool taken = true;
    if (std::optional<std::string> text = co_await text_of(line)) {
      taken = co_await relay_.socket.write_text(repair_utf8(std::move(*text)));
      if (!taken && !refuses(line.size)) co_return false;
      if (!taken) notice_line(*relay_.process, kRefusedText, line.offset);
      if (taken && line.cut_off) notice_line(*relay_.process, kCutOffText, line.offset);
      longest_ = std::max(longest_, line.size);
    }
    if (line.cut_off) {
      attachment_.pass_over(line.next);
    } else {
      attachment_.deliver(line.next);
    }
    co_return taken;
  }

  Task<bool> flush() {
    if (texts_.empty()) co_return true;
    bytes_ = 0;
    const auto nexts = std::exchange(nexts_, {});
    co_return co_await relay_.socket.write_texts(
        std::exchange(texts_, {}),
        [this, &nexts](std::size_t taken) { attachment_.deliver(nexts[taken - 1]); });
  }

 private:
  static constexpr std::size_t kShort = 8u << 10;  // to copy it is less than a system call

  // A long line waits in the journal, not in memory, until it is complete. What is given of one
  // that is cut off ends with a whole character. Nothing: it is damaged.
  Task<std::optional<std::string>> text_of(journal::Line& line) {
    if (line.text) co_return std::move(line.text);
    journal::Follower follower(relay_.process->streams().out(), line.offset);
    std::string text;
    while (text.size() < line.size) {
      journal::Chunk chunk = co_await follower.next(line.size - text.size());
      if (chunk.kind != journal::Chunk::Kind::bytes) co_return std::nullopt;
      text += chunk.bytes;
    }
    if (line.cut_off) text.resize(text.size() - incomplete_utf8_tail(text));
    co_return text;
  }

  // Whether the client has closed because of a line of this size: to give it to the next one would
  // go on for ever, for that is mostly the same client. It may have meant one that its connection
  // had taken before, if that was as long.
  bool refuses(std::uint64_t size) const {
    const net::WebSocket& socket = relay_.socket;
    return socket.ended().is_set() && socket.peer_closed() &&
           socket.reason().code == net::CloseCode::too_big && size > longest_;
  }

  Relay& relay_;
  Attachment& attachment_;
  std::vector<std::string> texts_;
  std::vector<std::uint64_t> nexts_;  // where the stream goes on behind each
  std::size_t bytes_ = 0;
  std::uint64_t longest_ = 0;  // of those that were not short
};

// One line is one message, whole, whatever pieces it was written in. What the client's connection
// has taken counts as delivered: who comes next goes on behind it.
Task<void> give_lines(RelayPtr relay, std::shared_ptr<Attachment> attachment, std::uint64_t from) {
  journal::Feed& feed = relay->process->streams().out();
  const journal::Journal& journal = feed.journal();
  journal::Follower follower(feed, from);
  journal::LineReader lines(from, journal.longest_line());
  if (from > 0 && from <= journal.mark(journal::Journal::kPassedOver)) lines.skip_to(from);
  Outgoing outgoing(*relay, *attachment);
  net::Charge held(relay->socket.share(), net::Flow::outgoing);
  bool taken = true;
  while (taken) {
    const journal::Chunk chunk = co_await follower.next();
    if (chunk.kind == journal::Chunk::Kind::ended) break;
    if (chunk.kind == journal::Chunk::Kind::truncated) {
      log::warning("output was released before the relay's client took it", "process",
                   name_of(*relay->process), "from", chunk.offset, "to", chunk.next);
      lines.skip_to(chunk.next);
      attachment->pass_over(chunk.next);
      continue;
    }
    lines.push(chunk.bytes);
    if (!held.resize(lines.held())) {
      // Nothing is lost: who comes again goes on where this one was.
      co_await relay->socket.close({net::CloseCode::try_again_later, kNoRoomText});
      break;
    }
    while (taken) {
      std::optional<journal::Line> line = lines.next();
      if (!line) break;
      taken = co_await outgoing.give(std::move(*line));
    }
    taken = taken && co_await outgoing.flush();
    if (!taken) break;
    if (lines.passes_over()) {
      attachment->pass_over(lines.offset());
    } else if (lines.pending() >= journal.limits().capacity) {
      attachment->await_line(lines.offset());
    }
  }
  std::optional<journal::Line> rest = taken ? lines.finish() : std::nullopt;
  if (rest && co_await outgoing.give(std::move(*rest))) co_await outgoing.flush();
  relay->done.set();
}

Task<void> watch_takeovers(RelayPtr relay, std::shared_ptr<Cancellation> give_up) {
  co_await relay->process->taken_over();
  give_up->cancel();
}

Task<void> watch_socket(RelayPtr relay, std::shared_ptr<Cancellation> give_up) {
  co_await relay->socket.ended().wait();
  give_up->cancel();
}

Task<void> serve_client(net::Exchange& exchange, Process process) {
  const std::vector<std::string> offered = net::offered_subprotocols(exchange.request());
  const auto offers = [&offered](const char* name) {
    return std::find(offered.begin(), offered.end(), name) != offered.end();
  };
  const bool offsets = offers(kOffsetsProtocol);
  OffsetsRequest request;
  if (offsets) request = read_offsets_request(exchange.request(), *process);
  // Of one that has ended, what it wrote can still be read, but by those who say from where.
  if (!offsets && !process->running()) {
    throw Error(ErrorCode::managed_process_conflict,
                str("managed process ", printable(process->spec().process_id), " in session ",
                    printable(process->session_id()), " is not running"));
  }
  net::WebSocketOptions options;
  options.subprotocol = offsets ? kOffsetsProtocol : offers(kLinesProtocol) ? kLinesProtocol : "";
  options.max_message = kMaxMessage;
  net::WebSocket socket = co_await exchange.accept_websocket(std::move(options));
  const auto executor = co_await boost::asio::this_coro::executor;
  const RelayPtr relay(new Relay{std::move(process), std::move(socket), Event(executor)});
  if (offsets) {
    co_await relay_offsets(relay, request);
  } else {
    co_await relay_lines(relay);
  }
  co_await relay->socket.close();
}

Task<void> serve_route(session::Processes& processes, const RelayGate& gate,
                       net::Exchange& exchange, std::string process_id) {
  const std::string& session_id = exchange.param("id");
  std::optional<net::Response> refusal = gate(exchange, session_id, process_id);
  if (!refusal) refusal = net::refuse_handshake(exchange.request());
  if (refusal) {
    co_await exchange.reply(std::move(*refusal));
    co_return;
  }
  Process process = processes.get(session_id, process_id);
  co_await serve_client(exchange, std::move(process));
}

}  // namespace

Attachment::Attachment(Process process, Turns::Turn turn, std::uint64_t offset)
    : process_(std::move(process)), turn_(std::move(turn)) {
  deliver(offset);  // who asks for this has what is before it
}

Attachment::~Attachment() {
  process_->streams().out().hold_from(journal::Journal::kNobody);
}

void Attachment::deliver(std::uint64_t offset) {
  journal::Feed& feed = process_->streams().out();
  if (offset > feed.journal().mark(kDelivered)) feed.journal().set_mark(kDelivered, offset);
  feed.hold_from(offset);
  feed.release_up_to(offset);
  process_->touch();
}

// In this order: a daemon that is killed in between leaves a line that is passed over as a whole.
void Attachment::pass_over(std::uint64_t offset) {
  process_->streams().out().journal().set_mark(journal::Journal::kPassedOver, offset);
  deliver(offset);
}

void Attachment::await_line(std::uint64_t offset) {
  journal::Feed& feed = process_->streams().out();
  feed.hold_from(offset, feed.journal().longest_line() + 1);
}

std::uint64_t undelivered(session::ManagedProcess& process) {
  const journal::Journal& journal = process.out();
  return std::max(journal.mark(kDelivered), journal.begin());
}

Task<std::optional<Turns::Turn>> wait_for_turn(RelayPtr relay) {
  const auto give_up = std::make_shared<Cancellation>();
  TaskGroup watchers(co_await boost::asio::this_coro::executor);
  watchers.spawn("wait for a takeover", watch_takeovers(relay, give_up));
  watchers.spawn("wait for a client's end", watch_socket(relay, give_up));
  std::optional<Turns::Turn> turn = co_await relay->process->attachments().take(give_up);
  co_await watchers.stop();
  if (relay->socket.ended().is_set()) turn.reset();
  if (!turn) co_await relay->socket.close({kTakenOver, kTakenOverText});
  co_return turn;
}

Task<void> end_when_taken_over(RelayPtr relay) {
  co_await relay->process->taken_over();
  co_await relay->socket.close({kTakenOver, kTakenOverText});
  relay->done.set();
}

Task<void> relay_lines(RelayPtr relay) {
  std::optional<Turns::Turn> turn = co_await wait_for_turn(relay);
  if (!turn) co_return;
  // Also where that is no longer kept: the line that it was in the midst of is then passed over.
  const std::uint64_t from = relay->process->out().mark(kDelivered);
  const auto attachment = std::make_shared<Attachment>(relay->process, std::move(*turn), from);
  TaskGroup directions(co_await boost::asio::this_coro::executor);
  directions.spawn("relay input", take_lines(relay));
  directions.spawn("relay output", give_lines(relay, attachment, from));
  directions.spawn("relay takeover", end_when_taken_over(relay));
  co_await relay->done.wait();
  co_await directions.stop();
}

void add_relay_routes(net::Router& router, session::Processes& processes, const RelayGate& gate) {
  const auto first = [&processes, gate](net::Exchange& exchange) {
    return serve_route(processes, gate, exchange, std::string(model::kDefaultProcessId));
  };
  const auto named = [&processes, gate](net::Exchange& exchange) {
    return serve_route(processes, gate, exchange, exchange.param("process"));
  };
  const net::RouteOptions options{.needs_token = false,
                                  .unforgeable_header = rpc::kInstanceHeader,
                                  .websocket = true,
                                  .judges_handshake = true};
  router.add("GET", "/v1/sessions/{id}/managed-process/ws", first, options);
  router.add("GET", "/v1/sessions/{id}/managed-process/{process}/ws", named, options);
}

}  // namespace caisson::api
