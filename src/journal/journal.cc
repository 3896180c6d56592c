#include "journal/journal.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/str.h"
#include "base/text.h"
#include "journal/crc32c.h"

namespace caisson::journal {
namespace {

std::int64_t wall_clock_us() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
}

}  // namespace

// One system call moves bytes and nothing else knows of them: a kill before or after it finds them
// in the pipe or below the file's size.
Drained Journal::pull(int pipe, std::size_t at_most, int& error) {
  Drained drained{.state = Drained::State::more};
  error = notice_changes();
  if (error != 0) return drained;
  while (drained.bytes < at_most) {
    if (const int failed = make_room(); failed != 0) {
      error = failed;
      return drained;
    }
    const std::size_t most = std::min(at_most - drained.bytes, room());
    if (most == 0) {
      drained.state = Drained::State::held;
      return drained;
    }
    auto offset = static_cast<loff_t>(end());
    const ssize_t moved = ::splice(pipe, nullptr, file_.get(), &offset, most, SPLICE_F_NONBLOCK);
    if (moved < 0 && errno == EINTR) continue;
    if (moved <= 0) {
      if (moved < 0 && errno != EAGAIN) error = errno;
      if (error == 0) drained.state = moved == 0 ? Drained::State::ended : Drained::State::empty;
      return drained;
    }
    drained.bytes += static_cast<std::size_t>(moved);
    end_.store(static_cast<std::uint64_t>(offset), std::memory_order_release);
  }
  return drained;
}

Drained Journal::drain(int pipe, std::size_t at_most) {
  int error = 0;
  const Drained drained = pull(pipe, at_most, error);
  if (error != 0 && drained.bytes == 0) refuse(error);
  return drained;
}

Drained Journal::drain_terminal(const TerminalSource& terminal, std::size_t at_most) {
  Drained total;
  bool left = false;
  for (;;) {
    int error = 0;
    const Drained step = pull(terminal.through_read, at_most - total.bytes, error);
    total.bytes += step.bytes;
    total.state = step.state;
    if (error != 0 && total.bytes == 0) refuse(error);
    if (error != 0 || step.state != Drained::State::empty) return total;
    const ssize_t moved = ::splice(terminal.master, nullptr, terminal.through_write, nullptr,
                                   kBlockSize, SPLICE_F_NONBLOCK);
    if (moved > 0 || (moved < 0 && errno == EINTR)) continue;
    if (moved < 0 && errno == EAGAIN) return total;
    // A master reports EIO when the last process has left the terminal. If that happens while it
    // looks, what the process wrote last comes only when it is asked once more.
    if (moved < 0 && errno != EIO) throw SystemError("terminal", errno);
    if (!std::exchange(left, true)) continue;
    total.state = Drained::State::ended;
    return total;
  }
}

void Journal::refuse(int error) const {
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) {
    throw Error(ErrorCode::storage_full,
                str("journal ", path_.native(), ": ", error_text(error),
                    "; the process waits with its output until there is space again"));
  }
  throw SystemError(str("journal ", path_.native()), error);
}

// Somebody may have cut the file, or written behind its end, where the next bytes belong. What was
// kept of a stream that was cut, or of a tail that is not what came, is given up: its checksum
// would never be right again. Gives errno when that is not possible now.
int Journal::notice_changes() {
  struct stat status {};
  if (::fstat(file_.get(), &status) != 0) return errno;
  const std::uint64_t last = end();
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (size == last && !tail_damaged_.load(std::memory_order_acquire)) return 0;
  if (size != last && ::ftruncate(file_.get(), static_cast<off_t>(last)) != 0) return errno;
  if (size > last) {
    log::error("somebody wrote behind the end of a journal; that was removed", "journal",
               path_.native(), "bytes", size - last);
  }
  if (tail_damaged_.exchange(false) || size < last) {
    log::error("a journal was damaged; what it kept is gone", "journal", path_.native(), "from",
               begin(), "to", last);
    index_.set_begin(last);
    open_ = {.end = start_of_open_block()};
  }
  return 0;
}

// The oldest byte that must not be released, or kNobody.
std::uint64_t Journal::first_held() const {
  const std::uint64_t held = held_from_.load(std::memory_order_acquire);
  if (limits_.overflow != Overflow::hold) return held;
  return std::min(held, std::max(begin(), mark(kReleased)));
}

std::uint64_t Journal::longest_line() const {
  return std::min(kLongestLine, index_.room() - slack(limits_) - 1);
}

// How many bytes the next step may take.
std::size_t Journal::room() const {
  const std::uint64_t step = BlockIndex::step(limits_.capacity);
  const std::uint64_t held = first_held();
  if (held == kNobody) return step;
  const std::uint64_t kept = end() - std::min(end(), held);
  const std::uint64_t slack =
      uses_slack_.load(std::memory_order_acquire) ? BlockIndex::slack(limits_.capacity) : 0;
  const std::uint64_t most =
      std::max(limits_.capacity, at_least_.load(std::memory_order_acquire)) + slack;
  return kept >= most ? 0 : std::min(step, most - kept);
}

// Before bytes are taken, not after: however often a process is killed behind that, no more is kept
// than the index has room for. Gives errno when what is to be released cannot be recorded.
int Journal::make_room() {
  if (end() - begin() <= limits_.capacity + BlockIndex::slack(limits_.capacity)) return 0;
  try {
    index();
  } catch (const SystemError& failure) {
    return failure.error_number();
  }
  const std::uint64_t oldest = std::min(end() - limits_.capacity, first_held());
  index_.set_begin(std::max(begin(), whole_blocks(oldest)));
  punch();
  return 0;
}

// What has not been recorded stays, for index() is to read it yet. begin() is on record before:
// nobody takes a hole for bytes of the stream.
void Journal::punch() {
  const std::uint64_t to = std::min(whole_blocks(begin()), index_.blocks() * kBlockSize);
  if (to <= punched_) return;
  const int failed = ::fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                 static_cast<off_t>(punched_), static_cast<off_t>(to - punched_));
  if (failed == 0) punched_ = to;
}

// Each byte is read once: what is known of an open block goes on with what has come since.
void Journal::index() {
  const std::uint64_t last = end();
  if (open_.end >= last) return;
  std::vector<char> buffer(std::min(kBlockSize, last - open_.end));
  while (open_.end < last) {
    const std::uint64_t left = start_of_open_block() + kBlockSize - open_.end;
    const std::span<char> piece = std::span(buffer).first(
        std::min({left, last - open_.end, static_cast<std::uint64_t>(buffer.size())}));
    if (read_exactly(open_.end, piece) != piece.size()) {
      throw SystemError(str("journal ", path_.native(), ", which somebody has shortened"), EIO);
    }
    const std::string_view bytes(piece.data(), piece.size());
    open_.crc = crc32c(bytes, open_.crc);
    open_.newlines += count_of('\n', bytes);
    open_.end += piece.size();
    if (piece.size() == left) complete_block();
  }
  if (const std::uint64_t bytes = open_.end - start_of_open_block(); bytes > 0) {
    index_.set_tail({.bytes = bytes, .crc = open_.crc});
  }
}

void Journal::complete_block() {
  Block block{.number = index_.blocks(),
              .crc = open_.crc,
              .completed_us = wall_clock_us(),
              .newlines = open_.newlines};
  const std::optional<Block> before =
      block.number > 0 ? index_.find(block.number - 1) : std::nullopt;
  if (before) {
    block.newlines += before->newlines;
    block.completed_us = std::max(block.completed_us, before->completed_us);
  }
  index_.add(block);
  open_ = {.end = open_.end};
}

// Less only at the end of the file.
std::size_t Journal::read_exactly(std::uint64_t offset, std::span<char> out) const {
  std::size_t done = 0;
  while (done < out.size()) {
    const ssize_t got = ::pread(file_.get(), out.data() + done, out.size() - done,
                                static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    check_syscall(path_.native(), got);
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

// Whether a block is what was recorded of it; `bytes`, at `offset`, may hold a part of it. What was
// never recorded, or whose record is lost, cannot be judged.
bool Journal::sound(std::uint64_t number, std::uint64_t offset, std::span<const char> bytes) const {
  const std::uint64_t start = number * kBlockSize;
  Tail recorded;
  if (const std::optional<Block> block = index_.find(number)) {
    recorded = {.bytes = kBlockSize, .crc = block->crc};
  } else if (const std::optional<Tail> tail = index_.tail(number)) {
    recorded = *tail;
  } else {
    return true;
  }
  if (start >= offset && start + recorded.bytes <= offset + bytes.size()) {
    return crc32c({bytes.data() + (start - offset), recorded.bytes}) == recorded.crc;
  }
  std::vector<char> whole(recorded.bytes);
  return read_exactly(start, whole) == whole.size() &&
         crc32c({whole.data(), whole.size()}) == recorded.crc;
}

// The first block of these bytes that is not what was recorded; of no bytes, that before them.
std::optional<std::uint64_t> Journal::find_damage(std::uint64_t offset,
                                                  std::span<const char> bytes) const {
  for (std::uint64_t number = offset / kBlockSize; number * kBlockSize < offset + bytes.size();
       ++number) {
    if (!sound(number, offset, bytes)) return number;
  }
  return std::nullopt;
}

ReadResult Journal::read(std::uint64_t offset, std::span<char> out, Reading reading) const {
  const std::uint64_t last = end();
  if (offset > last) {
    throw Error(ErrorCode::validation_error, str("journal ", path_.native(), ": offset ", offset,
                                                 " lies behind the end, ", last));
  }
  const std::uint64_t wanted = std::min<std::uint64_t>(out.size(), last - offset);
  std::size_t got = 0;
  std::optional<std::uint64_t> damaged;
  if (offset >= begin()) {
    got = read_exactly(offset, out.first(wanted));
    if (reading == Reading::verified) damaged = find_damage(offset, out.first(got));
  }
  // What was released while it was read may have been read as zeros. The beginning moves before
  // anything is released, so it tells.
  const std::uint64_t first = begin();
  if (offset < first) return {.truncated = true, .begin = std::min(first, last)};
  if (got < wanted && !damaged) damaged = (offset + got) / kBlockSize;
  if (!damaged) return {.bytes = got, .begin = first};
  const std::uint64_t start = *damaged * kBlockSize;
  if (start > offset) return {.bytes = start - offset, .begin = first};
  // A complete block is a gap. The other is one up to the end of now, and given up by drain().
  const bool complete = index_.find(*damaged).has_value() && got == wanted;
  if (!complete) tail_damaged_.store(true, std::memory_order_release);
  const std::uint64_t next = complete ? std::min(start + kBlockSize, last) : last;
  if (next == offset) return {.begin = first};  // it was here before: nothing is missing
  log::error("a journal was damaged; a reader goes on behind it", "journal", path_.native(), "from",
             offset, "to", next);
  return {.truncated = true, .begin = next};
}

void Journal::release_up_to(std::uint64_t offset) {
  if (offset > end()) {
    throw Error(ErrorCode::validation_error,
                str("journal ", path_.native(), ": cannot release up to ", offset,
                    ", which lies behind the end, ", end()));
  }
  if (offset > mark(kReleased)) set_mark(kReleased, offset);
}

}  // namespace caisson::journal
