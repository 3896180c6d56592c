#include "base/beneath.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/error.h"
#include "base/exhaustion.h"
#include "base/file.h"
#include "base/path.h"
#include "base/str.h"
#include "base/text.h"

namespace caisson {

namespace {

// The kernel answers EAGAIN when something was renamed while it went up by a "..". Somebody who
// renames without end gets no more than this.
constexpr int kAttempts = 100;

}  // namespace

UniqueFd open_beneath(int directory, const std::string& path, int flags, Links links) {
  open_how how{};
  if ((flags & O_PATH) == 0) flags |= O_NONBLOCK | O_NOCTTY;
  how.flags = static_cast<std::uint64_t>(flags | O_CLOEXEC);
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  if (links == Links::refuse) how.resolve |= RESOLVE_NO_SYMLINKS;
  const char* where = path.empty() ? "." : path.c_str();
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    UniqueFd fd(static_cast<int>(::syscall(SYS_openat2, directory, where, &how, sizeof how)));
    if (!fd && errno != EAGAIN && is_exhaustion(errno)) throw SystemError(path, errno);
    if (fd || (errno != EAGAIN && errno != EINTR)) return fd;
  }
  errno = EXDEV;
  return {};
}

std::optional<struct stat> stat_beneath(int directory, const std::string& path, Links links) {
  const UniqueFd fd = open_beneath(directory, path, O_PATH, links);
  struct stat info {};
  if (!fd || ::fstat(fd.get(), &info) < 0) return std::nullopt;
  return info;
}

bool is_file_beneath(int directory, const std::string& path) {
  const auto info = stat_beneath(directory, path, Links::inside);
  return info && S_ISREG(info->st_mode);
}

bool is_directory_beneath(int directory, const std::string& path) {
  const auto info = stat_beneath(directory, path, Links::inside);
  return info && S_ISDIR(info->st_mode);
}

UniqueFd make_directory_at(int directory, const std::string& name, std::string_view subject) {
  const bool made = ::mkdirat(directory, name.c_str(), 0755) == 0;
  if (!made && errno != EEXIST) throw SystemError(subject, errno);
  UniqueFd fd = open_beneath(directory, name, O_RDONLY | O_DIRECTORY, Links::refuse);
  check_syscall(subject, fd.get());
  struct stat parent {};
  check_syscall(subject, ::fstat(directory, &parent));
  if (made && (parent.st_uid != ::geteuid() || parent.st_gid != ::getegid())) {
    check_syscall(subject, ::fchown(fd.get(), parent.st_uid, parent.st_gid));
  }
  return fd;
}

UniqueFd open_absolute(const std::string& path, int flags) {
  const UniqueFd top = open_file("/", O_PATH | O_DIRECTORY);
  return open_beneath(top.get(), path.substr(std::min(path.find_first_not_of('/'), path.size())),
                      flags, Links::refuse);
}

UniqueFd make_directories(const std::string& path) {
  UniqueFd found = open_absolute(path, O_PATH | O_DIRECTORY);
  if (found) return found;
  if (errno != ENOENT) throw SystemError(path, errno);
  const std::size_t slash = path.rfind('/');
  const UniqueFd parent = make_directories(path.substr(0, std::max<std::size_t>(slash, 1)));
  return make_directory_at(parent.get(), path.substr(slash + 1), path);
}

std::optional<std::string> normal_relative(std::string_view path) {
  if (path.starts_with('/') || path.find('\0') != std::string_view::npos) return std::nullopt;
  std::vector<std::string> parts;
  for (const std::string_view part : split(path, '/')) {
    if (part.empty() || part == ".") continue;
    if (part != "..") {
      parts.emplace_back(part);
    } else if (parts.empty()) {
      return std::nullopt;
    } else {
      parts.pop_back();
    }
  }
  return join(parts, "/");
}

std::optional<std::string> canonical_path(const std::string& path) {
  if (path.empty() || path.find('\0') != std::string::npos) return std::nullopt;
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  if (error) return std::nullopt;
  const std::filesystem::path canonical = std::filesystem::weakly_canonical(absolute, error);
  if (error) return std::nullopt;
  return normalise_path(canonical.native());
}

std::string join_path(std::string_view directory, std::string_view name) {
  if (directory.empty() || name.empty()) return str(directory, name);
  return str(directory, directory.ends_with('/') ? "" : "/", name);
}

}  // namespace caisson
