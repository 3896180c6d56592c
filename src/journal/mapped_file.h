#pragma once
#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "journal/lost_pages.h"

namespace caisson::journal {

// A small file mapped shared: what is stored in it is in the kernel's hands at once and survives
// kill -9 of this process at any instruction. Somebody who writes into it or shortens it changes
// what is read from the memory, so users of it read what they stored from a copy of their own.
class MappedFile {
 public:
  MappedFile() = default;
  // A new file with this content, in place of one that may be there. It appears under its name only
  // when it is complete, and its space is taken: a store into it never fails for want of any.
  static MappedFile create(const std::filesystem::path& path, std::string_view content);
  // Throws SystemError when there is no such file; an empty one, or one over `limit`, maps nothing.
  static MappedFile open(const std::filesystem::path& path, std::size_t limit);

  MappedFile(MappedFile&& other) noexcept
      : guard_(std::move(other.guard_)), bytes_(std::exchange(other.bytes_, {})) {}
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<std::byte> bytes() const { return bytes_; }

 private:
  MappedFile(int fd, std::size_t size, std::string_view subject);
  std::unique_ptr<GuardedPages> guard_;
  std::span<std::byte> bytes_;
};

}  // namespace caisson::journal
