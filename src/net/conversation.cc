#include "net/conversation.h"

#include <algorithm>
#include <span>
#include <utility>

namespace caisson::net {

namespace {

constexpr std::size_t kMaxInbox = 256u << 10;
constexpr std::size_t kMessageCost = 64;  // of one without a byte
constexpr auto kLongestTick = std::chrono::milliseconds(500);

std::size_t cost_of(const Message& message) {
  return message.data.size() + kMessageCost;
}

}  // namespace

Conversation::Conversation(std::shared_ptr<Stream> stream, Role role, WebSocketOptions options)
    : stream_(std::move(stream)),
      role_(role),
      options_(std::move(options)),
      tasks_(stream_->socket().get_executor()),
      timer_(stream_->socket().get_executor()),
      reader_(role, options_.max_message, stream_->share()),
      arrived_(stream_->socket().get_executor()),
      fetched_(stream_->socket().get_executor()),
      liveness_(options_.ping_interval, Clock::now()),
      writers_(stream_->socket().get_executor()),
      may_write_(stream_->socket().get_executor()),
      ended_(stream_->socket().get_executor()),
      closed_(stream_->socket().get_executor()) {}

void Conversation::start() {
  tasks_.spawn("websocket", read_frames(shared_from_this()));
  if (role_ == Role::client) tick();
}

// Reading.

Task<void> Conversation::read_frames(std::shared_ptr<Conversation> self) {
  try {
    while (self->take_input()) {
      if (self->held_up()) {
        self->reading_ = false;
        co_await self->fetched_.wait();
        continue;  // what there was no room for is still in the stream
      }
      if (!std::exchange(self->reading_, true)) self->liveness_.heard(Clock::now());
      const bool more = co_await self->read_input();
      if (!more) self->lose("the peer went without closing");
    }
  } catch (const FrameError& error) {
    self->fail(error);
  } catch (const std::exception& error) {
    self->lose(error.what());
  }
}

// Waits for bytes. Those of a large frame go straight to where they belong.
Task<bool> Conversation::read_input() {
  std::span<char> room;
  if (stream_->buffered().empty()) room = reader_.room();
  std::size_t bytes = 0;
  bool more = false;
  if (room.size() >= stream_->capacity()) {
    bytes = co_await stream_->read_into(room);
    more = bytes > 0;
  } else {
    more = co_await stream_->fill();
  }
  if (bytes > 0) reader_.filled(bytes);
  if (more) liveness_.heard(Clock::now());
  co_return more;
}

// Acts on all frames that are here. False: nothing more is to be read.
bool Conversation::take_input() {
  // Not where closing begins: bytes may be on their way to the memory of a message.
  if (own_close_) reader_.discard_messages();
  while (!read_closed_ && !lost_) {
    const FrameReader::Step step = reader_.read(stream_->buffered());
    stream_->consume(step.used);
    switch (step.event) {
      case FrameReader::Event::more:
        await_message();
        return true;
      case FrameReader::Event::message:
        on_message();
        break;
      case FrameReader::Event::ping:
        if (!closing_) pong_ = reader_.control();
        flush();
        break;
      case FrameReader::Event::pong:
        liveness_.pong(reader_.control());
        break;
      case FrameReader::Event::close:
        on_close();
        break;
    }
  }
  return false;
}

// Everything that is here has been read; there may be the beginning of a message in it.
void Conversation::await_message() {
  if (!reader_.in_message()) {
    message_deadline_ = Deadline::max();
    unfinished_.reset();
    return;
  }
  if (message_deadline_ == Deadline::max() && options_.message_deadline.count() > 0) {
    message_deadline_ = Clock::now() + options_.message_deadline;
  }
  if (!unfinished_) unfinished_.emplace(stream_->share().get(), [this] { refuse_message(); });
}

void Conversation::refuse_message() {
  begin_close({.code = CloseCode::try_again_later,
               .text = "there was no room for a message; try again in a moment"});
}

void Conversation::on_message() {
  Message message = reader_.take_message();
  message_deadline_ = Deadline::max();
  unfinished_.reset();
  if (own_close_) return;
  inbox_bytes_ += cost_of(message);
  inbox_.push_back(std::move(message));
  arrived_.notify();
}

void Conversation::on_close() {
  CloseReason reason = decode_close(reader_.control());
  read_closed_ = true;
  if (!closing_) {
    peer_closed_ = true;
    close_ = encode_close({.code = reason.code});
    end(std::move(reason));
    flush();
  }
  check_closed();
}

bool Conversation::inbox_full() const {
  return inbox_bytes_ >= kMaxInbox && !closing_;
}

std::optional<Message> Conversation::read_now() {
  if (inbox_.empty()) return std::nullopt;
  Message message = std::move(inbox_.front());
  inbox_.pop_front();
  inbox_bytes_ -= cost_of(message);
  if (!inbox_full()) fetched_.notify();
  return message;
}

Task<std::optional<Message>> Conversation::read(std::shared_ptr<Conversation> self) {
  for (;;) {
    if (std::optional<Message> message = self->read_now()) co_return message;
    if (self->closing_) co_return std::nullopt;
    co_await self->arrived_.wait();
  }
}

// Ending.

// Nothing but the Close is sent from here on.
void Conversation::end(CloseReason reason) {
  closing_ = true;
  reason_ = std::move(reason);
  close_deadline_ = Clock::now() + options_.close_deadline;
  ended_.set();
  arrived_.notify();
  fetched_.notify();
  may_write_.notify();
}

void Conversation::begin_close(CloseReason reason) {
  if (closing_) return;
  own_close_ = true;
  inbox_.clear();
  inbox_bytes_ = 0;
  close_ = encode_close(reason);
  end(std::move(reason));
  flush();
}

// The peer broke a rule: it is told, and not listened to any more.
void Conversation::fail(const FrameError& error) {
  read_closed_ = true;
  if (!closing_) {
    CloseReason reason{.code = error.close_code(), .text = error.what()};
    close_ = encode_close(reason);
    end(std::move(reason));
    flush();
  }
  check_closed();
}

void Conversation::lose(std::string_view why) {
  if (std::exchange(lost_, true)) return;
  if (!closing_) end({.code = CloseCode::lost, .text = std::string(why)});
  stream_->expire();
  check_closed();
}

void Conversation::check_closed() {
  if (lost_ || (close_sent_ && read_closed_)) closed_.set();
}

Task<void> Conversation::close(std::shared_ptr<Conversation> self, CloseReason reason) {
  self->begin_close(std::move(reason));
  co_await self->closed_.wait();
}

Task<void> Conversation::finish(std::shared_ptr<Conversation> self, CloseReason reason) {
  co_await close(self, std::move(reason));
  co_await self->tasks_.finish();
}

void Conversation::leave() {
  if (role_ == Role::server) return;  // the connection knows what to do
  begin_close({.code = CloseCode::going_away});
  lose("the client left");
  timer_.cancel();
  stream_->close();
}

// Watching.

// The time in which nobody fetches messages is not the peer's.
void Conversation::check_message(Deadline now) {
  if (inbox_full()) {
    message_deadline_ = Deadline::max();
  } else if (now < message_deadline_) {
    if (!reader_.starved()) return;
    // Nobody reads from it meanwhile, so nobody else would notice.
    if (stream_->peer_left()) lose("the peer went while its message waited for room");
    if (unfinished_) unfinished_->starved(now);
    fetched_.notify();  // to look whether there is room again
  } else if (reader_.starved()) {
    refuse_message();
  } else {
    begin_close({.code = CloseCode::policy_violation, .text = "a message took too long to come"});
  }
}

void Conversation::check(Deadline now) {
  if (closed_.is_set()) return;
  if (closing_) {
    if (now >= close_deadline_) lose("the peer took no part in closing");
    return;
  }
  check_message(now);
  if (closing_) return;
  if (!liveness_.look(now)) return;
  const Liveness::Sent sent{.written = stream_->written(), .queued = stream_->queued()};
  switch (liveness_.judge(now, sent, reading_)) {
    case Liveness::Verdict::alive:
      break;
    case Liveness::Verdict::ping:
      ping_ = liveness_.next_ping(now, sent.written);
      flush();
      break;
    case Liveness::Verdict::gone:
      // In case it is only asleep, it finds out why when it wakes.
      close_ = encode_close({.code = CloseCode::internal_error, .text = "no answer to pings"});
      end({.code = CloseCode::lost, .text = "the peer does not answer"});
      flush();
      lose("the peer does not answer");
      break;
  }
}

void Conversation::tick() {
  auto shortest = options_.close_deadline;
  if (options_.ping_interval.count() > 0) shortest = std::min(shortest, options_.ping_interval);
  timer_.expires_after(std::clamp(shortest / 4, std::chrono::milliseconds(1), kLongestTick));
  timer_.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
    const auto self = weak.lock();
    if (error || !self || self->closed_.is_set()) return;
    self->check(Clock::now());
    self->tick();
  });
}

}  // namespace caisson::net
