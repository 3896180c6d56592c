#include "journal/input_log.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "journal/crc32c.h"

namespace caisson::journal {
namespace {

namespace fs = std::filesystem;
using Atomic = std::atomic<std::uint64_t>;

constexpr std::array<char, 8> kMagic = {'C', 'A', 'I', 'S', 'I', 'N', '1', '\n'};

// Pipes hold references to pages of the file. A hole that cuts through a large folio is made by
// writing zeros into it, which a reader of the pipe would see; no folio is larger than this, and
// all are aligned to their size.
constexpr std::uint64_t kReleaseUnit = 2u << 20;

constexpr std::size_t kMaxVectors = 128;  // of one system call

struct Slot {
  Atomic generation;
  Atomic end;
  Atomic last_sequence;
  Atomic closed;
  Atomic check;
};

struct Layout {
  std::array<char, 8> magic;
  std::array<Slot, 2> slots;
};
static_assert(Atomic::is_always_lock_free && sizeof(Slot) == 5 * sizeof(std::uint64_t));

std::uint64_t slot_check(std::uint64_t generation, const InputState& state) {
  const std::array<std::uint64_t, 4> fields = {generation, state.end, state.last_sequence,
                                               state.closed ? 1u : 0u};
  return crc32c({reinterpret_cast<const char*>(fields.data()), sizeof fields});
}

struct Found {
  InputState state;
  std::uint64_t generation = 0;
};

std::optional<Found> find_slot(std::span<const std::byte> memory) {
  if (memory.size() != sizeof(Layout)) return std::nullopt;
  const auto& layout = *reinterpret_cast<const Layout*>(memory.data());
  if (layout.magic != kMagic) return std::nullopt;
  std::optional<Found> best;
  for (std::size_t parity = 0; parity < layout.slots.size(); ++parity) {
    const Slot& slot = layout.slots.at(parity);
    const std::uint64_t closed = slot.closed.load();
    const Found found{.state = {.end = slot.end.load(),
                                .last_sequence = slot.last_sequence.load(),
                                .closed = closed == 1},
                      .generation = slot.generation.load()};
    if (closed > 1 || found.generation == 0 || found.generation % 2 != parity ||
        slot.check.load() != slot_check(found.generation, found.state)) {
      continue;
    }
    if (!best || found.generation > best->generation) best = found;
  }
  return best;
}

void publish_in(std::span<std::byte> memory, const InputState& state, std::uint64_t generation) {
  Slot& slot = reinterpret_cast<Layout*>(memory.data())->slots.at(generation % 2);
  slot.check.store(~slot.check.load());  // it does not count while it is changed
  slot.generation.store(generation);
  slot.end.store(state.end);
  slot.last_sequence.store(state.last_sequence);
  slot.closed.store(state.closed ? 1 : 0);
  slot.check.store(slot_check(generation, state));
}

fs::path state_path(const fs::path& path) {
  return str(path.native(), ".state");
}

// A new state file.
MappedFile make_state(const fs::path& path, const InputState& state) {
  alignas(Atomic) std::array<std::byte, sizeof(Layout)> bytes{};
  std::memcpy(bytes.data(), kMagic.data(), kMagic.size());
  publish_in(bytes, state, 1);
  return MappedFile::create(path, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

void set_state_aside(const fs::path& path) {
  for (unsigned number = 1;; ++number) {
    const std::string aside = str(path.native(), ".damaged-", number);
    if (::renameat2(AT_FDCWD, path.c_str(), AT_FDCWD, aside.c_str(), RENAME_NOREPLACE) == 0) return;
    if (errno == ENOENT) return;
    if (errno != EEXIST) throw SystemError(path.native(), errno);
  }
}

bool is_full(int error) {
  return error == ENOSPC || error == EDQUOT || error == EFBIG;
}

}  // namespace

std::optional<InputState> find_input_state(std::span<const std::byte> memory) {
  const std::optional<Found> found = find_slot(memory);
  if (!found) return std::nullopt;
  return found->state;
}

InputLog::InputLog(fs::path path, UniqueFd file, MappedFile mapped, InputState state,
                   std::uint64_t position, std::uint64_t max_queued)
    : path_(std::move(path)),
      file_(std::move(file)),
      mapped_(std::move(mapped)),
      state_(state),
      position_(position),
      max_queued_(max_queued) {}

InputLog InputLog::create(const fs::path& directory, const std::string& name,
                          std::uint64_t max_queued) {
  const fs::path path = directory / name;
  UniqueFd file = open_file(path, O_RDWR | O_CREAT | O_EXCL, 0600);
  try {
    MappedFile mapped = make_state(state_path(path), {});
    return {path, std::move(file), std::move(mapped), {}, 0, max_queued};
  } catch (const SystemError& error) {
    ::unlink(path.c_str());
    if (!is_full(error.error_number())) throw;
    throw Error(ErrorCode::storage_full, error.what());
  }
}

InputLog::Opened InputLog::open(const fs::path& directory, const std::string& name, UniqueFd kept,
                                std::uint64_t max_queued) {
  const fs::path path = directory / name;
  struct stat held {};
  check_syscall(path.native(), ::fstat(kept.get(), &held));
  const auto size = static_cast<std::uint64_t>(held.st_size);
  const auto position =
      static_cast<std::uint64_t>(check_syscall(path.native(), ::lseek(kept.get(), 0, SEEK_CUR)));

  std::string damage;
  struct stat named {};
  if (::stat(path.c_str(), &named) != 0 || named.st_dev != held.st_dev ||
      named.st_ino != held.st_ino) {
    damage = "its file was removed or replaced; nothing of it is lost";
  }
  MappedFile mapped;
  std::optional<Found> found;
  try {
    mapped = MappedFile::open(state_path(path), 1u << 20);
    found = find_slot(mapped.bytes());
  } catch (const SystemError& error) {
    const int number = error.error_number();
    if (number != ENOENT && number != EACCES && number != ELOOP && number != EISDIR) throw;
  }
  if (!found || found->state.end < position) {
    damage = "its state is missing or damaged; what clients send again is written again";
    set_state_aside(state_path(path));
    found = Found{.state = {.end = std::max(size, position)}, .generation = 1};
    mapped = make_state(state_path(path), found->state);
  }
  Opened opened{
      .log = {path, std::move(kept), std::move(mapped), found->state, position, max_queued},
      .damage = std::move(damage)};
  opened.log.generation_ = found->generation;
  return opened;
}

void InputLog::remove(const fs::path& directory, const std::string& name) {
  const fs::path path = directory / name;
  for (const fs::path& file : {path, state_path(path)}) {
    if (::unlink(file.c_str()) != 0 && errno != ENOENT) throw SystemError(file.native(), errno);
  }
}

void InputLog::publish(const InputState& state) {
  publish_in(mapped_.bytes(), state, ++generation_);
  state_ = state;
}

Appended InputLog::append(std::uint64_t sequence, std::span<const std::string_view> pieces) {
  if (sequence != 0 && sequence <= state_.last_sequence) return Appended::already_written;
  if (state_.closed) return Appended::closed;
  std::size_t size = 0;
  for (const std::string_view piece : pieces) size += piece.size();
  skip_what_was_cut();
  if (queued() > 0 && queued() + size > max_queued_) return Appended::busy;
  write(pieces);
  publish({.end = state_.end + size, .last_sequence = std::max(sequence, state_.last_sequence)});
  return Appended::written;
}

// What somebody has cut off is lost, and must not come to the process as zeros.
bool InputLog::skip_what_was_cut() {
  struct stat status {};
  check_syscall(path_.native(), ::fstat(file_.get(), &status));
  if (static_cast<std::uint64_t>(status.st_size) >= state_.end) return false;
  log::error("an input log was cut; what the process had not read is lost", "log", path_.native(),
             "bytes", queued());
  check_syscall(path_.native(), ::lseek(file_.get(), static_cast<off_t>(state_.end), SEEK_SET));
  position_ = state_.end;
  return true;
}

// Behind the end, where nothing counts yet.
void InputLog::write(std::span<const std::string_view> pieces) {
  auto offset = static_cast<off_t>(state_.end);
  std::size_t done = 0;  // of the first piece
  while (!pieces.empty()) {
    std::array<iovec, kMaxVectors> vectors;
    std::size_t count = 0;
    for (const std::string_view piece : pieces.first(std::min(pieces.size(), vectors.size()))) {
      const std::string_view left = count == 0 ? piece.substr(done) : piece;
      vectors.at(count++) = {const_cast<char*>(left.data()), left.size()};
    }
    const ssize_t put = ::pwritev(file_.get(), vectors.data(), static_cast<int>(count), offset);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && is_full(errno)) {
      throw Error(ErrorCode::storage_full,
                  str("input log ", path_.native(), ": ", error_text(errno),
                      "; nothing was accepted: free space and send it again"));
    }
    offset += check_syscall(path_.native(), put);
    done += static_cast<std::size_t>(put);
    while (!pieces.empty() && done >= pieces.front().size()) {
      done -= pieces.front().size();
      pieces = pieces.subspan(1);
    }
  }
}

void InputLog::close() {
  InputState state = state_;
  state.closed = true;
  publish(state);
}

// The position is the only record of what the process has got, and the call that moves the bytes
// moves it: there is no instant in which one has happened and not the other.
Fed InputLog::feed(int pipe, std::size_t at_most) {
  Fed fed{.state = Fed::State::more};
  while (fed.bytes < at_most) {
    const std::uint64_t waiting = queued();
    if (waiting == 0) {
      fed.state = state_.closed ? Fed::State::finished : Fed::State::drained;
      break;
    }
    const std::size_t most = std::min<std::uint64_t>(waiting, at_most - fed.bytes);
    const ssize_t moved = ::splice(file_.get(), nullptr, pipe, nullptr, most, SPLICE_F_NONBLOCK);
    if (moved < 0 && errno == EINTR) continue;
    if (moved < 0 && (errno == EAGAIN || errno == EPIPE)) {
      fed.state = errno == EAGAIN ? Fed::State::full : Fed::State::broken;
      break;
    }
    check_syscall(path_.native(), moved);
    if (moved == 0) {
      if (skip_what_was_cut()) continue;
      throw Error(ErrorCode::internal_error,
                  str("input log ", path_.native(), " gives nothing of what it has"));
    }
    fed.bytes += static_cast<std::size_t>(moved);
    position_ += static_cast<std::uint64_t>(moved);
  }
  release(pipe);
  return fed;
}

// Gives back the space of what the process has read. A failure is made good at the next call.
void InputLog::release(int pipe) {
  if (position_ < released_ + kReleaseUnit) return;
  int in_pipe = 0;
  check_syscall("input pipe", ::ioctl(pipe, FIONREAD, &in_pipe));
  const std::uint64_t read = position_ - std::min(position_, static_cast<std::uint64_t>(in_pipe));
  const std::uint64_t to = read / kReleaseUnit * kReleaseUnit;
  if (to <= released_) return;
  const int failed = ::fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                 static_cast<off_t>(released_), static_cast<off_t>(to - released_));
  if (failed == 0) released_ = to;
}

}  // namespace caisson::journal
