#include "daemon/token.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "base/error.h"
#include "base/file.h"
#include "base/random.h"
#include "base/str.h"
#include "base/text.h"

namespace caisson::daemon {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kRandomBytes = 32;
constexpr std::size_t kMinCharacters = 32;
constexpr std::size_t kMaxCharacters = 4096;

[[noreturn]] void refuse(const fs::path& file, std::string_view cause) {
  throw Error(ErrorCode::system_error, str("token file ", file.native(), " ", cause));
}

void check_owner(int fd, const fs::path& file) {
  struct stat status {};
  check_syscall(file.native(), ::fstat(fd, &status));
  if (!S_ISREG(status.st_mode)) refuse(file, "is no regular file: remove it");
  if (status.st_uid != ::geteuid()) {
    refuse(file, str("belongs to user ", status.st_uid, ": its secret may be known; remove it"));
  }
  if ((status.st_mode & 077u) != 0) {
    refuse(file, str("can be read or written by others: chmod 600 ", file.native(),
                     ", or remove it if its secret may be known"));
  }
}

}  // namespace

std::optional<std::string> find_token(const fs::path& state_dir) {
  const fs::path file = state_dir / "token";
  // A fifo must not hold up the daemon.
  const UniqueFd fd(::open(file.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!fd) {
    if (errno == ENOENT) return std::nullopt;
    if (errno == ELOOP) refuse(file, "is a symbolic link: put the token itself there");
    throw SystemError(file.native(), errno);
  }
  check_owner(fd.get(), file);
  const std::string content = read_all(fd.get(), file.native(), kMaxCharacters + 2);
  const std::string token(trim(content));
  if (token.size() < kMinCharacters || token.size() > kMaxCharacters) {
    refuse(file, str("holds ", token.size(), " characters, not ", kMinCharacters, " to ",
                     kMaxCharacters, ": remove it, and a new one is made"));
  }
  for (const char c : token) {
    if (c <= ' ' || c > '~') refuse(file, "holds more than visible ASCII characters: remove it");
  }
  return token;
}

std::string load_or_make_token(const fs::path& state_dir) {
  if (std::optional<std::string> token = find_token(state_dir)) return *token;
  std::string token = random_hex(kRandomBytes);
  replace_file(state_dir / "token", token + "\n", 0600);
  return token;
}

}  // namespace caisson::daemon
