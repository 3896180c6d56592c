#include "guest/files.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "base/directory.h"
#include "base/error.h"
#include "base/file.h"
#include "base/str.h"
#include "base/unique_fd.h"

namespace caisson::guest {

namespace {

constexpr std::uint32_t kMaxPiece = 1u << 20;

int checked(std::string_view what, long result) {
  return static_cast<int>(check_syscall(what, result));
}

constexpr timeval kSayBusyEvery{.tv_sec = 5, .tv_usec = 0};

// What may take long says meanwhile that it goes on: the owner cannot tell it from a process that
// somebody has stopped.
void say_busy() {
  struct sigaction action {};
  action.sa_handler = [](int) {
    const int error = errno;
    static_cast<void>(!::write(STDOUT_FILENO, "busy\n", 5));
    errno = error;
  };
  action.sa_flags = SA_RESTART;
  checked("busy", ::sigaction(SIGALRM, &action, nullptr));
  const itimerval timer{.it_interval = kSayBusyEvery, .it_value = kSayBusyEvery};
  checked("busy", ::setitimer(ITIMER_REAL, &timer, nullptr));
}

void answer(const std::string& text) {
  const itimerval off{};
  checked("busy", ::setitimer(ITIMER_REAL, &off, nullptr));
  write_all(STDOUT_FILENO, text, "answer");
}

// A file of the kernel does not say how long it is.
void get_unsized(int file, const std::string& path) {
  constexpr std::size_t kMost = 16u << 20;
  const std::string content = read_all(file, path, kMost);
  answer(str("ok ", content.size(), "\n", content));
}

void get(const std::string& path) {
  // Without O_NONBLOCK a FIFO would be waited for.
  const UniqueFd file(checked(path, ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)));
  struct stat info {};
  checked(path, ::fstat(file.get(), &info));
  if (S_ISDIR(info.st_mode)) throw SystemError(path, EISDIR);
  if (!S_ISREG(info.st_mode)) throw SystemError(path, EINVAL);
  if (info.st_size == 0) return get_unsized(file.get(), path);
  answer(str("ok ", info.st_size, "\n"));
  // No more than was announced, should the file grow meanwhile.
  off_t left = info.st_size;
  while (left > 0) {
    const ssize_t sent =
        ::sendfile(STDOUT_FILENO, file.get(), nullptr, static_cast<std::size_t>(left));
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) std::exit(1);  // cut short: the owner counts
    left -= sent;
  }
}

void make_parents(const std::string& path) {
  for (std::size_t slash = path.find('/', 1); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    const std::string parent = path.substr(0, slash);
    if (::mkdir(parent.c_str(), 0755) < 0 && errno != EEXIST && errno != EROFS && errno != EACCES) {
      throw SystemError(parent, errno);
    }
  }
}

// False at a clean end of all input, or in the middle of a piece.
bool read_exactly(char* buffer, std::size_t size) {
  while (size > 0) {
    const ssize_t got = ::read(STDIN_FILENO, buffer, size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    buffer += got;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

// Copies the pieces; false when the input ended before its end was told.
bool receive_content(int file, const std::string& path) {
  std::string piece;
  for (;;) {
    unsigned char size_bytes[4];
    if (!read_exactly(reinterpret_cast<char*>(size_bytes), sizeof size_bytes)) return false;
    const std::uint32_t size = static_cast<std::uint32_t>(size_bytes[0]) |
                               static_cast<std::uint32_t>(size_bytes[1]) << 8 |
                               static_cast<std::uint32_t>(size_bytes[2]) << 16 |
                               static_cast<std::uint32_t>(size_bytes[3]) << 24;
    if (size == 0) return true;
    if (size > kMaxPiece) return false;
    piece.resize(size);
    if (!read_exactly(piece.data(), size)) return false;
    write_all(file, piece, path);
  }
}

// The new content has no name until it is complete, so that being killed leaves nothing behind.
// Where files cannot be without a name it has one that is removed.
void put(const std::string& path, mode_t mode) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) throw SystemError(path, EISDIR);
  make_parents(path);
  const std::size_t slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const std::string temporary = str(directory, "/.caisson-", ::getpid(), ".new");
  UniqueFd file(::open(directory.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600));
  const bool nameless = static_cast<bool>(file);
  if (!nameless) {
    file = UniqueFd(
        checked(path, ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)));
  }
  try {
    if (!receive_content(file.get(), path)) throw SystemError(path, ECANCELED);
    checked(path, ::fchmod(file.get(), mode));
    if (nameless) {
      const std::string self = str("/proc/self/fd/", file.get());
      checked(path,
              ::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, temporary.c_str(), AT_SYMLINK_FOLLOW));
    }
    checked(path, ::rename(temporary.c_str(), path.c_str()));
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  answer("ok 0\n");
}

char type_of(mode_t mode) {
  if (S_ISREG(mode)) return 'f';
  if (S_ISDIR(mode)) return 'd';
  return S_ISLNK(mode) ? 'l' : 'o';
}

void list(const std::string& path) {
  const UniqueFd directory(checked(path, ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)));
  std::string entries;
  for_each_entry(directory.get(), path, [&](const dirent& entry) {
    struct stat info {};
    if (::fstatat(directory.get(), entry.d_name, &info, AT_SYMLINK_NOFOLLOW) < 0) return;
    entries += str(std::string(1, type_of(info.st_mode)), " ", info.st_mode & 07777, " ",
                   info.st_size, " ", info.st_mtime, " ", entry.d_name, std::string_view("\0", 1));
  });
  answer(str("ok ", entries.size(), "\n", entries));
}

void remove(const std::string& path) {
  struct stat info {};
  checked(path, ::lstat(path.c_str(), &info));
  remove_tree(AT_FDCWD, path);
  answer("ok 0\n");
}

void usage(int count, char** paths) {
  std::string lines;
  for (int i = 0; i < count; ++i) {
    const UniqueFd directory(::open(paths[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (directory) {
      const TreeUsage found = measure_tree(directory.get());
      lines += str(found.allocated, " ", found.files, " ", found.errors, "\n");
    } else {
      lines += "none\n";
    }
  }
  answer(str("ok ", lines.size(), "\n", lines));
}

}  // namespace

int run_files(int argc, char** argv) {
  const std::string_view verb = argc > 2 ? argv[2] : "";
  const std::string path = argc > 3 ? argv[3] : "";
  try {
    // Payloads have this process's user: they shall not trace it nor open what it has open.
    checked("files", ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0));
    if (verb != "get" && verb != "put") say_busy();
    if (verb == "get") {
      get(path);
    } else if (verb == "put" && argc > 4) {
      put(path, static_cast<mode_t>(std::strtoul(argv[4], nullptr, 8) & 0777));
    } else if (verb == "list") {
      list(path);
    } else if (verb == "remove") {
      remove(path);
    } else if (verb == "usage") {
      usage(argc - 3, argv + 3);
    } else {
      throw SystemError("files", EINVAL);
    }
  } catch (const SystemError& error) {
    try {
      answer(str("error ", error.error_number(), "\n"));
    } catch (const Error&) {
      // The owner does not listen any more.
    }
    return 1;
  } catch (const std::exception&) {
    return 1;
  }
  return 0;
}

}  // namespace caisson::guest
