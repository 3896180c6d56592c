#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "journal/limits.h"

// What a crash of the host or a bad disk leaves of a journal or an input log, as bytes: the input
// of fuzz_journal_file.
//
//   byte 0      bit 0: the journal holds instead of releasing what is oldest
//               bits 1 to 2: its capacity in blocks, less one
//               bit 3: closed
//               bit 4: there is no data file; bit 5: there is no index
//               bit 7: an input log
//   byte 1      bits 0 to 2: blocks that are recorded, or pieces of input
//               bits 3 to 7: blocks before them that have been released
//   4 bytes     size of the data, without what has been released; 4 bytes: where the journal
//               begins, likewise, or the position of the input log
//   then, again and again, 13 bytes:
//     byte      what is changed: see Change
//     4 bytes   where
//     8 bytes   to what
// Numbers are little-endian.
namespace caisson::fuzz {

struct Change {
  enum What : std::uint8_t {
    content,    // one byte of the data, before it is recorded
    data,       // one byte of the data, after that
    index,      // eight bytes of the index, or of the input log's state
    index_size  // the index ends here
  };
  std::uint8_t what = content;
  std::uint32_t where = 0;
  std::uint64_t value = 0;
};

struct JournalScript {
  bool hold = false;
  unsigned capacity = 1;  // in blocks
  bool closed = false;
  bool has_data = true;
  bool has_index = true;
  bool input = false;
  unsigned recorded = 0;
  unsigned released = 0;
  std::uint32_t size = 0;
  std::uint32_t begin = 0;
  std::vector<Change> changes;
};

inline constexpr std::uint32_t kMostData = 4 * journal::kBlockSize + 1000;

template <typename T>
T take_number(std::string_view& input) {
  T number = 0;
  for (std::size_t i = 0; i < sizeof(T) && i < input.size(); ++i) {
    number =
        static_cast<T>(number | static_cast<T>(static_cast<unsigned char>(input[i])) << (8 * i));
  }
  input.remove_prefix(std::min(sizeof(T), input.size()));
  return number;
}

inline JournalScript read_journal_script(std::string_view input) {
  const auto flags = take_number<std::uint8_t>(input);
  const auto blocks = take_number<std::uint8_t>(input);
  JournalScript script{.hold = (flags & 1u) != 0,
                       .capacity = 1 + (flags >> 1 & 3u),
                       .closed = (flags & 8u) != 0,
                       .has_data = (flags & 0x10u) == 0,
                       .has_index = (flags & 0x20u) == 0,
                       .input = (flags & 0x80u) != 0,
                       .recorded = blocks & 7u,
                       .released = static_cast<unsigned>(blocks >> 3),
                       .size = take_number<std::uint32_t>(input) % (kMostData + 1),
                       .begin = take_number<std::uint32_t>(input),
                       .changes = {}};
  while (!input.empty()) {
    Change& change = script.changes.emplace_back();
    change.what = take_number<std::uint8_t>(input);
    change.where = take_number<std::uint32_t>(input);
    change.value = take_number<std::uint64_t>(input);
  }
  return script;
}

inline std::string write_journal_script(const JournalScript& script) {
  std::string bytes;
  const auto put = [&bytes](std::uint64_t number, unsigned size) {
    for (unsigned i = 0; i < size; ++i) bytes.push_back(static_cast<char>(number >> (8 * i)));
  };
  put((script.hold ? 1u : 0u) | (script.capacity - 1) << 1 | (script.closed ? 8u : 0u) |
          (script.has_data ? 0u : 0x10u) | (script.has_index ? 0u : 0x20u) |
          (script.input ? 0x80u : 0u),
      1);
  put(script.recorded | script.released << 3, 1);
  put(script.size, 4);
  put(script.begin, 4);
  for (const Change& change : script.changes) {
    put(change.what, 1);
    put(change.where, 4);
    put(change.value, 8);
  }
  return bytes;
}

}  // namespace caisson::fuzz
