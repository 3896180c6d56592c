#include "journal/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cstdio>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "base/str.h"

namespace caisson::journal {

MappedFile::MappedFile(int fd, std::size_t size, std::string_view subject) {
  void* const address = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (address == MAP_FAILED) throw SystemError(subject, errno);
  bytes_ = {static_cast<std::byte*>(address), size};
  guard_ = std::make_unique<GuardedPages>(address, size);
}

MappedFile MappedFile::create(const std::filesystem::path& path, std::string_view content) {
  const std::string temporary = str(path.native(), ".new");
  try {
    const UniqueFd fd = open_file(temporary, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600);
    write_all(fd.get(), content, temporary);
    MappedFile mapped(fd.get(), content.size(), path.native());
    check_syscall(path.native(), ::rename(temporary.c_str(), path.c_str()));
    return mapped;
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
}

MappedFile MappedFile::open(const std::filesystem::path& path, std::size_t limit) {
  const UniqueFd fd = open_file(path, O_RDWR | O_NOFOLLOW);
  struct stat status {};
  check_syscall(path.native(), ::fstat(fd.get(), &status));
  const auto size = static_cast<std::size_t>(status.st_size);
  if (!S_ISREG(status.st_mode) || size == 0 || size > limit) return {};
  return {fd.get(), size, path.native()};
}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(guard_, other.guard_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  guard_.reset();
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

}  // namespace caisson::journal
