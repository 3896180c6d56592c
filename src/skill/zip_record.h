#pragma once
#include <cstdint>
#include <string_view>

#include "model/object_reader.h"

namespace caisson::skill {

[[noreturn]] inline void refuse_zip() {
  model::refuse("Uploaded file must be a valid .zip archive");
}

// A piece of an archive, from which little-endian numbers and texts are read one after the other.
// Reading beyond its end refuses the archive.
class ZipRecord {
 public:
  explicit ZipRecord(std::string_view bytes) : rest_(bytes) {}
  // From `offset` of the archive on.
  ZipRecord(std::string_view archive, std::uint64_t offset) : rest_(archive) { skip(offset); }

  std::uint16_t u16() { return static_cast<std::uint16_t>(number(2)); }
  std::uint32_t u32() { return static_cast<std::uint32_t>(number(4)); }
  std::uint64_t u64() { return number(8); }

  std::string_view bytes(std::uint64_t count) {
    if (count > rest_.size()) refuse_zip();
    const std::string_view piece = rest_.substr(0, static_cast<std::size_t>(count));
    rest_.remove_prefix(static_cast<std::size_t>(count));
    return piece;
  }
  void skip(std::uint64_t count) { bytes(count); }

  void expect(std::uint32_t signature) {
    if (u32() != signature) refuse_zip();
  }

  std::size_t left() const { return rest_.size(); }

 private:
  std::uint64_t number(unsigned count) {
    std::uint64_t value = 0;
    unsigned shift = 0;
    for (const char byte : bytes(count)) {
      value |= static_cast<std::uint64_t>(static_cast<unsigned char>(byte)) << shift;
      shift += 8;
    }
    return value;
  }

  std::string_view rest_;
};

}  // namespace caisson::skill
