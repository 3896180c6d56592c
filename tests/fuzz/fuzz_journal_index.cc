// What lies beside a journal and an input log, as a crash of the host or a bad disk may leave it.
// The first bytes say how large the journal's file is.
#include <cstring>
#include <vector>

#include "fuzz.h"
#include "journal/block_index.h"
#include "journal/input_log.h"

namespace {

using namespace caisson::journal;
using caisson::fuzz::require;

// A sound index keeps what journals rely on.
void check_index(std::span<std::byte> memory, std::uint64_t file_size) {
  if (BlockIndex::problem(memory, file_size)) return;
  const BlockIndex index(memory);
  require(index.begin() <= file_size);
  require(index.blocks() <= file_size / kBlockSize);
  require(index.limits().capacity > 0 && index.limits().capacity <= kMaxCapacity);
  for (std::uint64_t number = index.begin() / kBlockSize; number < index.blocks(); ++number) {
    require(index.find(number).has_value());
  }
  require(!BlockIndex::problem(memory, file_size).has_value());
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::uint64_t file_size = 0;
  if (size < sizeof file_size) return 0;
  std::memcpy(&file_size, data, sizeof file_size);
  data += sizeof file_size;
  size -= sizeof file_size;
  std::vector<std::uint64_t> aligned(size / sizeof(std::uint64_t) + 1);
  std::memcpy(aligned.data(), data, size);
  const auto memory = std::as_writable_bytes(std::span(aligned)).first(size);
  check_index(memory, file_size);
  if (const auto state = find_input_state(memory)) require(find_input_state(memory) == state);
  return 0;
}
