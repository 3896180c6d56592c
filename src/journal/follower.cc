#include "journal/follower.h"

#include <algorithm>
#include <utility>

namespace caisson::journal {

Task<Chunk> Follower::next(std::size_t at_most) {
  const Journal& journal = feed_.journal();
  for (;;) {
    const bool closed = journal.closed();  // asked first: what came before it is then in the end
    const std::uint64_t available = journal.end() - std::min(offset_, journal.end());
    Chunk chunk{.offset = offset_};
    chunk.bytes.resize(std::min<std::uint64_t>(at_most, available));
    const ReadResult result =
        journal.read(offset_, chunk.bytes, caught_up_ ? Reading::live : Reading::verified);
    chunk.bytes.resize(result.bytes);
    chunk.next = offset_ + result.bytes;
    if (result.truncated) {
      chunk.kind = Chunk::Kind::truncated;
      chunk.next = result.begin;
    } else if (result.bytes == 0 && closed) {
      chunk.kind = Chunk::Kind::ended;
    } else if (result.bytes == 0) {
      caught_up_ = true;
      co_await feed_.changed();
      continue;
    }
    offset_ = chunk.next;
    co_return chunk;
  }
}

}  // namespace caisson::journal
