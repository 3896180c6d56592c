#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace caisson::skill {

// One file or directory of an archive, after it was judged.
struct ZipEntry {
  std::string path;  // relative, in normal form, UTF-8
  bool is_directory = false;
  bool is_executable = false;
  std::uint16_t method = 0;  // kStored or kDeflated
  std::uint32_t crc = 0;
  std::uint64_t size = 0;
  std::string_view data;  // compressed, in the archive
};

constexpr std::uint16_t kStored = 0;
constexpr std::uint16_t kDeflated = 8;

// Reads the central directory of a zip archive and judges all of it before a byte is decompressed:
// names, kinds, sizes, ratios, and that every entry has bytes of its own. Throws validation_error
// for what is no sound archive or beyond the limits. Stricter than readers need to be: nothing may
// stand before or behind the archive, and each local header has to agree with the directory, so
// that no two readers can see different content. The entries are in the directory's order and refer
// to `archive`.
std::vector<ZipEntry> read_zip_directory(std::string_view archive);

}  // namespace caisson::skill
