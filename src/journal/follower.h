#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "async/task.h"
#include "journal/feed.h"

namespace caisson::journal {

// A piece of a stream.
struct Chunk {
  enum class Kind {
    bytes,
    truncated,  // what was from `offset` to `next` is no longer kept, or damaged
    ended,      // there is nothing at `offset` and there never will be
  };
  Kind kind = Kind::bytes;
  std::uint64_t offset = 0;
  std::uint64_t next = 0;  // where the following chunk begins
  std::string bytes;
};

// One reader of a journal, at an offset of its own. However slow it is, it delays nobody but, with
// Overflow::hold, the process that it is to release. It never polls.
class Follower {
 public:
  static constexpr std::size_t kChunkSize = 64u << 10;

  Follower(Feed& feed, std::uint64_t offset) : feed_(feed), offset_(offset) {}

  // Gives at most `at_most` bytes as soon as there are any. An offset behind the end is a
  // validation_error. One call at a time.
  Task<Chunk> next(std::size_t at_most = kChunkSize);

  std::uint64_t offset() const { return offset_; }

 private:
  Feed& feed_;
  std::uint64_t offset_;
  // What was there before this reader came is compared with its checksums; what comes while it
  // waits is handed on as it is.
  bool caught_up_ = false;
};

}  // namespace caisson::journal
