#pragma once
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <new>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "base/unique_fd.h"
#include "journal/journal.h"

// What the tests of journals share: a stream whose every byte is known from its offset, and
// processes that are killed.
namespace caisson::journal {

// No two pieces of some length are alike, and there are newlines in it.
inline char stream_byte(std::uint64_t offset) {
  std::uint64_t value = (offset >> 3) * 0x9e3779b97f4a7c15ull + 0x1234567;
  value ^= value >> 29;
  value *= 0xbf58476d1ce4e5b9ull;
  value ^= value >> 32;
  return static_cast<char>(value >> ((offset & 7) * 8));
}

inline std::string stream_bytes(std::uint64_t offset, std::size_t size) {
  std::string bytes(size, '\0');
  for (std::size_t i = 0; i < size; ++i) bytes[i] = stream_byte(offset + i);
  return bytes;
}

inline bool is_stream(std::string_view bytes, std::uint64_t offset) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] != stream_byte(offset + i)) return false;
  }
  return true;
}

inline std::string read_journal(const Journal& journal, std::uint64_t from, std::uint64_t to) {
  std::string bytes(to - from, '\0');
  const ReadResult result = journal.read(from, bytes);
  if (result.truncated || result.bytes != bytes.size()) {
    throw Error(ErrorCode::internal_error, "the journal does not have what it says");
  }
  return bytes;
}

// All that is kept is what was written there.
inline bool holds_stream(const Journal& journal) {
  return is_stream(read_journal(journal, journal.begin(), journal.end()), journal.begin());
}

// Drains what is in the pipe now.
inline Drained drain_all(Journal& journal, int pipe) {
  Drained total;
  for (;;) {
    const Drained step = journal.drain(pipe, 1u << 20);
    total.bytes += step.bytes;
    total.state = step.state;
    if (step.state != Drained::State::more) return total;
  }
}

inline void wait_for(int fd, short events) {
  pollfd polled{.fd = fd, .events = events};
  while (::poll(&polled, 1, -1) < 0) {
    if (errno != EINTR) throw SystemError("poll", errno);
  }
}

// Memory that forked processes share; it is the test's as long as that runs.
template <typename T>
T& shared_memory() {
  void* const address =
      ::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) throw SystemError("shared memory", errno);
  return *new (address) T();
}

// Runs `body` in a process of its own, which ends with what it returns, or with the test.
template <typename Body>
pid_t fork_process(Body body) {
  const pid_t child = check_syscall("fork", ::fork());
  if (child != 0) return child;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  int status = 1;
  try {
    status = body();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "process of the test: %s\n", error.what());
  }
  ::_exit(status);
}

// Its exit code, or 128 and the signal.
inline int wait_for_process(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) throw SystemError("waitpid", errno);
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// SIGKILL in some moment of the next microseconds; the exit code says whether it came first.
inline int kill_after(pid_t child, unsigned microseconds) {
  const timespec life{.tv_sec = 0, .tv_nsec = static_cast<long>(microseconds) * 1000};
  ::nanosleep(&life, nullptr);
  ::kill(child, SIGKILL);
  return wait_for_process(child);
}

inline constexpr int kKilled = 128 + SIGKILL;

// Rounds of tests that kill; the environment may ask for more.
inline int kills() {
  const char* const wished = std::getenv("CAISSON_TEST_KILLS");
  return wished != nullptr ? std::atoi(wished) : 300;
}

}  // namespace caisson::journal
