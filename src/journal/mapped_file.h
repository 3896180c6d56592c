#pragma once
#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>
#include <utility>

#include "base/unique_fd.h"

namespace caisson::journal {

// A small file mapped shared: what is stored in it is in the kernel's hands at once and survives
// kill -9 of this process at any instruction. Nobody else may shorten the file while it is mapped.
class MappedFile {
 public:
  MappedFile() = default;
  // A new file with this content, in place of one that may be there. It appears under its name only
  // when it is complete, and its space is taken: a store into it never fails for want of any.
  static MappedFile create(const std::filesystem::path& path, std::string_view content);
  // Throws SystemError when there is no such file; an empty one, or one over `limit`, maps nothing.
  static MappedFile open(const std::filesystem::path& path, std::size_t limit);

  MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<std::byte> bytes() const { return bytes_; }

 private:
  MappedFile(int fd, std::size_t size, std::string_view subject);
  std::span<std::byte> bytes_;
};

}  // namespace caisson::journal
