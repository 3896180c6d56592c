#include "journal/journal.h"

#include <fcntl.h>
#include <linux/falloc.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/str.h"
#include "base/text.h"
#include "journal/crc32c.h"

namespace caisson::journal {
namespace {

std::int64_t wall_clock_us() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
}

std::uint64_t whole_blocks(std::uint64_t offset) {
  return offset / kBlockSize * kBlockSize;
}

}  // namespace

// One system call moves bytes and nothing else knows of them: a kill before or after it finds them
// in the pipe or below the file's size.
Drained Journal::pull(int pipe, std::size_t at_most, int& error) {
  Drained drained{.state = Drained::State::more};
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

// The oldest byte that must not be released, or kNobody.
std::uint64_t Journal::first_held() const {
  const std::uint64_t held = held_from_.load(std::memory_order_acquire);
  if (limits_.overflow != Overflow::hold) return held;
  return std::min(held, std::max(begin(), mark(kReleased)));
}

// How many bytes the next step may take.
std::size_t Journal::room() const {
  const std::uint64_t step = BlockIndex::step(limits_.capacity);
  const std::uint64_t held = first_held();
  if (held == kNobody) return step;
  const std::uint64_t kept = end() - std::min(end(), held);
  const std::uint64_t slack =
      uses_slack_.load(std::memory_order_acquire) ? BlockIndex::slack(limits_.capacity) : 0;
  const std::uint64_t most = limits_.capacity + slack;
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

void Journal::index() {
  if (end() / kBlockSize == index_.blocks()) return;
  std::vector<char> buffer(kBlockSize);
  while (index_.blocks() < end() / kBlockSize) {
    Block block = read_block(index_.blocks(), buffer);
    block.completed_us = wall_clock_us();
    if (block.number > 0) {
      const std::optional<Block> before = index_.find(block.number - 1);
      if (before) {
        block.newlines += before->newlines;
        block.completed_us = std::max(block.completed_us, before->completed_us);
      }
    }
    index_.add(block);
  }
}

// The newlines are only those in the block.
Block Journal::read_block(std::uint64_t number, std::span<char> buffer) const {
  if (read_exactly(number * kBlockSize, buffer) != buffer.size()) {
    throw SystemError(str("journal ", path_.native(), ", which somebody has shortened"), EIO);
  }
  const std::string_view bytes(buffer.data(), buffer.size());
  return {.number = number, .crc = crc32c(bytes), .newlines = count_of('\n', bytes)};
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

ReadResult Journal::read(std::uint64_t offset, std::span<char> out) const {
  const std::uint64_t last = end();
  if (offset > last) {
    throw Error(ErrorCode::validation_error, str("journal ", path_.native(), ": offset ", offset,
                                                 " lies behind the end, ", last));
  }
  std::size_t got = 0;
  if (offset >= begin()) {
    got = read_exactly(offset, out.first(std::min<std::uint64_t>(out.size(), last - offset)));
  }
  // What was released while it was read may have been read as zeros. The beginning moves before
  // anything is released, so it tells.
  const std::uint64_t first = begin();
  if (offset < first) return {.truncated = true, .begin = first};
  return {.bytes = got, .begin = first};
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
