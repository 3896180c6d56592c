#pragma once
#include <archive.h>
#include <archive_entry.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace caisson::skill {

inline std::uint32_t crc32_of(std::string_view content) {
  std::uint32_t crc = 0xFFFFFFFF;
  for (const char c : content) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xEDB88320u : 0u);
  }
  return ~crc;
}

// Content as a deflate stream of one block that is not compressed; up to 65535 bytes.
inline std::string as_deflated(std::string_view content) {
  const auto length = static_cast<std::uint16_t>(content.size());
  const auto inverse = static_cast<std::uint16_t>(~length);
  std::string data = {1, static_cast<char>(length & 0xFF), static_cast<char>(length >> 8),
                      static_cast<char>(inverse & 0xFF), static_cast<char>(inverse >> 8)};
  return data.append(content);
}

// An entry of which every number can be wrong.
struct RawEntry {
  std::string name;
  std::string data;  // as it stands in the archive
  std::uint16_t method = 0;
  std::uint16_t flags = 1u << 11;
  std::uint32_t mode = 0100644;
  std::optional<std::uint32_t> size;        // data.size()
  std::optional<std::uint32_t> compressed;  // data.size()
  std::optional<std::uint32_t> crc;         // of data
  std::optional<std::string> local_name;    // name
  std::optional<std::uint32_t> offset;      // where the entry is
  std::string extra;                        // of the central directory
};

class RawZip {
 public:
  std::string comment;
  std::string before;                    // anything in front of the archive
  std::optional<std::uint16_t> entries;  // what the end record says
  bool zip64 = false;                    // with zip64 end records

  RawZip& add(const RawEntry& entry) {
    const auto here = static_cast<std::uint32_t>(content_.size());
    const auto size = entry.size.value_or(static_cast<std::uint32_t>(entry.data.size()));
    const auto compressed =
        entry.compressed.value_or(static_cast<std::uint32_t>(entry.data.size()));
    const std::string& local_name = entry.local_name ? *entry.local_name : entry.name;
    std::string common;
    put(common, entry.flags, 2);
    put(common, entry.method, 2);
    put(common, 0x00210000, 4);
    put(common, entry.crc.value_or(crc32_of(entry.data)), 4);
    put(common, compressed, 4);
    put(common, size, 4);
    put(content_, 0x04034b50, 4);
    put(content_, 20, 2);
    content_ += common;
    put(content_, local_name.size(), 2);
    put(content_, 0, 2);
    content_ += local_name + entry.data;
    put(directory_, 0x02014b50, 4);
    put(directory_, 20 | 3 << 8, 2);
    put(directory_, 20, 2);
    directory_ += common;
    put(directory_, entry.name.size(), 2);
    put(directory_, entry.extra.size(), 2);
    put(directory_, 0, 6);  // comment, disk, attributes
    put(directory_, static_cast<std::uint64_t>(entry.mode) << 16, 4);
    put(directory_, entry.offset.value_or(here), 4);
    directory_ += entry.name + entry.extra;
    ++count_;
    return *this;
  }
  RawZip& add(const std::string& name, const std::string& content) {
    return add(RawEntry{.name = name, .data = content});
  }

  std::string bytes() const {
    std::string archive = before + content_ + directory_;
    const std::uint64_t offset = content_.size();
    if (zip64) {
      const std::uint64_t at = archive.size();
      put(archive, 0x06064b50, 4);
      put(archive, 44, 8);
      put(archive, 45 | 45 << 16, 4);
      put(archive, 0, 8);
      put(archive, count_, 8);
      put(archive, count_, 8);
      put(archive, directory_.size(), 8);
      put(archive, offset, 8);
      put(archive, 0x07064b50, 4);
      put(archive, 0, 4);
      put(archive, at, 8);
      put(archive, 1, 4);
    }
    put(archive, 0x06054b50, 4);
    put(archive, 0, 4);
    const std::uint64_t count = zip64 ? 0xFFFF : entries.value_or(count_);
    put(archive, count, 2);
    put(archive, count, 2);
    put(archive, zip64 ? 0xFFFFFFFF : directory_.size(), 4);
    put(archive, zip64 ? 0xFFFFFFFF : offset, 4);
    put(archive, comment.size(), 2);
    return archive + comment;
  }

  static void put(std::string& out, std::uint64_t value, unsigned bytes) {
    for (; bytes > 0; --bytes, value >>= 8) out.push_back(static_cast<char>(value & 0xFF));
  }

 private:
  std::string content_;
  std::string directory_;
  std::uint16_t count_ = 0;
};

using Files = std::vector<std::pair<std::string, std::string>>;

// As a real program writes it, compressed. A name that ends with "/" is a directory.
inline std::string real_zip(const Files& files) {
  std::string bytes(8u << 20, '\0');
  std::size_t used = 0;
  archive* writer = ::archive_write_new();
  ::archive_write_set_format_zip(writer);
  ::archive_write_set_bytes_per_block(writer, 0);
  ::archive_write_open_memory(writer, bytes.data(), bytes.size(), &used);
  for (const auto& [name, content] : files) {
    archive_entry* entry = ::archive_entry_new();
    const bool is_directory = name.ends_with('/');
    ::archive_entry_set_pathname(entry, name.c_str());
    ::archive_entry_set_filetype(entry, is_directory ? AE_IFDIR : AE_IFREG);
    ::archive_entry_set_perm(entry, is_directory || name.ends_with(".sh") ? 0775 : 0664);
    ::archive_entry_set_size(entry, static_cast<la_int64_t>(content.size()));
    ::archive_write_header(writer, entry);
    if (!content.empty()) ::archive_write_data(writer, content.data(), content.size());
    ::archive_entry_free(entry);
  }
  ::archive_write_close(writer);
  ::archive_write_free(writer);
  bytes.resize(used);
  return bytes;
}

}  // namespace caisson::skill
