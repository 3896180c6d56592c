#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cstdio>

#include "base/error.h"
#include "base/str.h"

namespace caisson {

UniqueFd open_file(const std::filesystem::path& path, int flags, unsigned mode) {
  return open_file_at(AT_FDCWD, path.native(), flags, mode);
}

UniqueFd open_file_at(int directory, const std::string& path, int flags, unsigned mode) {
  return UniqueFd(check_syscall(path, ::openat(directory, path.c_str(), flags | O_CLOEXEC, mode)));
}

std::string read_all(int fd, std::string_view subject, std::size_t limit) {
  std::string content;
  char buffer[16384];
  for (;;) {
    const ssize_t got = ::read(fd, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    check_syscall(subject, got);
    if (got == 0) return content;
    content.append(buffer, static_cast<std::size_t>(got));
    if (content.size() > limit) {
      throw Error(ErrorCode::system_error, str(subject, ": larger than ", limit, " bytes"));
    }
  }
}

std::string read_file(const std::filesystem::path& path, std::size_t limit) {
  const UniqueFd fd = open_file(path, O_RDONLY);
  return read_all(fd.get(), path.native(), limit);
}

std::optional<std::string> find_file_content(const std::filesystem::path& path, std::size_t limit) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) {
    if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
    throw SystemError(path.native(), errno);
  }
  return read_all(fd.get(), path.native(), limit);
}

void write_control_file(const std::filesystem::path& path, std::string_view content) {
  const UniqueFd fd = open_file(path, O_WRONLY);
  check_syscall(path.native(), ::write(fd.get(), content.data(), content.size()));
}

void write_all(int fd, std::string_view content, std::string_view subject) {
  while (!content.empty()) {
    const ssize_t put = ::write(fd, content.data(), content.size());
    if (put < 0 && errno == EINTR) continue;
    check_syscall(subject, put);
    content.remove_prefix(static_cast<std::size_t>(put));
  }
}

void replace_file(const std::filesystem::path& path, std::string_view content, unsigned mode) {
  std::string temporary = str(path.native(), ".XXXXXX");
  const UniqueFd fd(check_syscall(temporary, ::mkostemp(temporary.data(), O_CLOEXEC)));
  try {
    check_syscall(temporary, ::fchmod(fd.get(), mode));
    write_all(fd.get(), content, temporary);
    check_syscall(temporary, ::fsync(fd.get()));
    check_syscall(path.native(), ::rename(temporary.c_str(), path.c_str()));
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  const std::filesystem::path parent = path.has_parent_path() ? path.parent_path() : ".";
  const UniqueFd directory = open_file(parent, O_RDONLY | O_DIRECTORY);
  check_syscall(parent.native(), ::fsync(directory.get()));
}

UniqueFd memory_file(const std::string& name) {
  return UniqueFd(
      check_syscall(name, ::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING)));
}

void seal_memory_file(int fd, const std::string& name) {
  // Not F_SEAL_WRITE: it fails with EBUSY as long as anything else, such as the kernel when it
  // compacts memory, holds a page. It protects from mappings that were writable before; none was.
  check_syscall(name, ::fcntl(fd, F_ADD_SEALS,
                              F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE));
}

UniqueFd sealed_memory_file(const std::string& name, std::span<const std::byte> content) {
  UniqueFd fd = memory_file(name);
  write_all(fd.get(), {reinterpret_cast<const char*>(content.data()), content.size()}, name);
  seal_memory_file(fd.get(), name);
  check_syscall(name, ::lseek(fd.get(), 0, SEEK_SET));
  return fd;
}

bool same_file(int a, int b) {
  struct stat first {};
  struct stat second {};
  return ::fstat(a, &first) == 0 && ::fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

UniqueFd duplicate(int fd, std::string_view subject) {
  return UniqueFd(check_syscall(subject, ::fcntl(fd, F_DUPFD_CLOEXEC, 3)));
}

std::pair<UniqueFd, UniqueFd> make_pipe() {
  int ends[2];
  check_syscall("pipe", ::pipe2(ends, O_CLOEXEC));
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

void set_nonblocking(int fd) {
  const int flags = check_syscall("fcntl", ::fcntl(fd, F_GETFL));
  check_syscall("fcntl", ::fcntl(fd, F_SETFL, flags | O_NONBLOCK));
}

}  // namespace caisson
