#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/unique_fd.h"
#include "journal/block_index.h"
#include "journal/limits.h"
#include "journal/mapped_file.h"

namespace caisson::journal {

// What a call of drain() moved, and why it moved no more.
struct Drained {
  enum class State {
    more,   // there may be more: as much as was asked for came, or there was trouble behind it
    empty,  // nothing is left for now
    ended,  // nothing is left and nobody can write any more
    held,   // the journal is full, and its policy is to hold
  };
  std::size_t bytes = 0;
  State state = State::empty;
};

// Bytes that were read, or the news that they are gone.
struct ReadResult {
  std::size_t bytes = 0;
  bool truncated = false;   // what was asked for is no longer kept, or is not what was written
  std::uint64_t begin = 0;  // the oldest offset behind it that is
};

// Whether what is read is compared with its checksum.
enum class Reading {
  verified,
  live,  // bytes that came a moment ago: to follow a stream costs no more than to read it
};

// A terminal's master side, and a pipe that its bytes go through. All are borrowed; the master is
// non-blocking, and both ends of the pipe outlive this process as the master does.
struct TerminalSource {
  int master = -1;
  int through_read = -1;
  int through_write = -1;
};

// What open() found unusable. The files stay under other names (NAME.damaged-N), for people to look
// at.
struct Damage {
  std::string reason;
  std::filesystem::path data_kept_as;   // empty: there was no such file
  std::filesystem::path index_kept_as;  // empty: there was no such file
};

// One output stream of one process. Byte N of the stream is byte N of the file DIRECTORY/NAME; the
// file's size is the end of the stream. splice(2) moves the bytes from the process's pipe within
// the kernel: at every instant, whoever is killed, each of them is in the pipe or in the file.
// DIRECTORY/NAME.index is a BlockIndex. Nothing is synced: no process survives its host.
//
// The files may be damaged by a disk or by people, also while they are open. Then the process goes
// on, and readers are told which offsets are gone: what they get is what was written there.
//
// At most one process at a time has a journal open; the next one opens it when the former is dead.
// Threads: drain(), drain_terminal() and index() belong to one thread at a time, which may be one
// of a pool; everything else may be called meanwhile, from the loop's.
class Journal {
 public:
  struct Opened;

  // Throws SystemError (EEXIST) when there is one, storage_full when there is no space for it.
  static std::unique_ptr<Journal> create(const std::filesystem::path& directory,
                                         const std::string& name, const Limits& limits);
  // Opens what an earlier process left and reads all that is kept, in order to verify it. If it is
  // damaged, unreadable or missing, what there is of it is set aside and a new journal goes on
  // where it ended, so that offsets never repeat; begin() == end() then. The limits are those it
  // was created with; `limits` are for a new one. Where nothing else tells how far the stream went,
  // `end_at_most` is taken. Throws when the storage does not take a new one either.
  static Opened open(const std::filesystem::path& directory, const std::string& name,
                     const Limits& limits, std::uint64_t end_at_most = 0);
  static void remove(const std::filesystem::path& directory, const std::string& name);

  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  // Moves up to `at_most` bytes out of the pipe, without waiting for any. Throws storage_full, or
  // SystemError, only when nothing was moved; then all bytes are still in the pipe.
  Drained drain(int pipe, std::size_t at_most);
  Drained drain_terminal(const TerminalSource& terminal, std::size_t at_most);
  // Records what has come. Without it, searches are slower and damage to it is not noticed;
  // drain() calls it before it releases anything.
  void index();

  std::uint64_t begin() const { return index_.begin(); }
  std::uint64_t end() const { return end_.load(std::memory_order_acquire); }
  // Whether drain() would be held.
  bool full() const { return room() == 0; }
  const Limits& limits() const { return limits_; }
  const std::filesystem::path& path() const { return path_; }

  // Fills `out` as far as there are bytes. An offset behind the end is a validation_error.
  ReadResult read(std::uint64_t offset, std::span<char> out,
                  Reading reading = Reading::verified) const;

  // Bytes before `offset` have been delivered and need not be kept. They are until there is more
  // than the capacity, as with the other policy, whom this tells nothing.
  void release_up_to(std::uint64_t offset);

  // While somebody reads who must miss nothing: what is at `offset` or behind it is not released,
  // whatever the policy; rather drain() is held, though not before there are `at_least` bytes, be
  // that more than the capacity. kNobody ends it.
  static constexpr std::uint64_t kNobody = ~std::uint64_t{0};
  void hold_from(std::uint64_t offset, std::uint64_t at_least = 0) {
    at_least_.store(at_least, std::memory_order_release);
    held_from_.store(offset, std::memory_order_release);
  }
  // The longest line, without its newline, that can be held: kLongestLine. Less in a small journal
  // that an earlier release made.
  std::uint64_t longest_line() const;

  // Lets it grow into its slack, for the last bytes of a process whose pipe is no larger than that.
  static std::uint64_t slack(const Limits& limits) { return BlockIndex::slack(limits.capacity); }
  void use_slack(bool use) { uses_slack_.store(use, std::memory_order_release); }

  // Nothing will come any more.
  bool closed() const { return index_.closed(); }
  void mark_closed() { index_.set_closed(); }

  // Numbers of the owner, each changed as a whole, that survive as the bytes do; 0 at first.
  std::uint64_t mark(std::size_t which) const { return index_.mark(which); }
  void set_mark(std::size_t which, std::uint64_t value) { index_.set_mark(which, value); }
  static constexpr std::size_t kDelivered = 0;  // first byte not delivered to the relay's client
  static constexpr std::size_t kReleased = 1;   // what release_up_to() was told
  // Up to here, a line was passed over of which the relay's clients get no more; 0: none ever was.
  static constexpr std::size_t kPassedOver = 2;

  // Everything that arrived at this wall-clock time (microseconds) or later is at this offset or
  // behind it; up to a block before it may be earlier.
  std::uint64_t offset_at_time(std::int64_t wall_clock_us) const;
  // Where the last `count` lines begin, or begin(). A last line may lack its newline.
  std::uint64_t offset_of_last_lines(std::uint64_t count) const;

 private:
  // Of the block that is not complete yet: what index() has read of it.
  struct OpenBlock {
    std::uint64_t end = 0;
    std::uint64_t newlines = 0;
    std::uint32_t crc = 0;
  };

  Journal(std::filesystem::path path, UniqueFd file, MappedFile mapped);
  static std::unique_ptr<Journal> make(const std::filesystem::path& path, const Limits& limits,
                                       std::uint64_t begin);
  static std::unique_ptr<Journal> adopt(const std::filesystem::path& path, Damage& damage,
                                        MappedFile& mapped, std::uint64_t& size);

  Drained pull(int pipe, std::size_t at_most, int& error);
  [[noreturn]] void refuse(int error) const;
  int notice_changes();
  std::uint64_t first_held() const;
  std::size_t room() const;
  int make_room();
  void punch();
  void complete_block();
  std::uint64_t start_of_open_block() const { return index_.blocks() * kBlockSize; }
  std::size_t read_exactly(std::uint64_t offset, std::span<char> out) const;
  bool sound(std::uint64_t number, std::uint64_t offset, std::span<const char> bytes) const;
  std::optional<std::uint64_t> find_damage(std::uint64_t offset, std::span<const char> bytes) const;
  std::optional<std::uint64_t> behind_newline(std::uint64_t from, std::uint64_t count) const;
  std::uint64_t count_newlines(std::uint64_t from, std::uint64_t to) const;

  const std::filesystem::path path_;
  const UniqueFd file_;
  const MappedFile mapped_;
  BlockIndex index_;
  const Limits limits_;
  std::atomic<std::uint64_t> end_;
  std::atomic<std::uint64_t> held_from_ = kNobody;
  std::atomic<std::uint64_t> at_least_ = 0;
  std::atomic<bool> uses_slack_ = false;
  mutable std::atomic<bool> tail_damaged_ = false;  // a reader has found out
  OpenBlock open_;
  std::uint64_t punched_ = 0;  // no blocks of the disk are in use before it
};

struct Journal::Opened {
  std::unique_ptr<Journal> journal;
  std::optional<Damage> damage;
};

}  // namespace caisson::journal
