#include "backend/native/cgroup_kill.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <memory>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "base/unique_fd.h"

namespace caisson::backend::native {

namespace {

// Every pass ends all it sees, so only a box that forks all the time needs more than two or three.
constexpr int kMostPasses = 64;

struct Member {
  pid_t pid;
  UniqueFd pidfd;
};

std::string read_procs(int directory) {
  const UniqueFd fd(::openat(directory, "cgroup.procs", O_RDONLY | O_CLOEXEC));
  if (fd) return read_all(fd.get(), "cgroup.procs");
  if (errno == ENOENT || errno == ENODEV) return {};  // the cgroup is gone
  throw SystemError("cgroup.procs", errno);
}

std::set<pid_t> read_members(int directory) {
  std::set<pid_t> pids;
  const std::string text = read_procs(directory);
  for (const std::string_view line : split(text, '\n')) {
    // 0 stands for a process that our pid namespace does not show.
    if (const long long pid = parse_integer(line).value_or(0); pid > 0) {
      pids.insert(static_cast<pid_t>(pid));
    }
  }
  return pids;
}

// A pid in the list may belong to another process by now; one that is in the list again after its
// pidfd was opened cannot.
std::vector<Member> open_members(int directory) {
  std::vector<Member> members;
  for (const pid_t pid : read_members(directory)) {
    UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    if (pidfd) {
      members.push_back({pid, std::move(pidfd)});
    } else if (errno != ESRCH) {
      throw SystemError("pidfd_open", errno);
    }
  }
  if (members.empty()) return members;
  const std::set<pid_t> still_inside = read_members(directory);
  std::erase_if(members, [&](const Member& member) { return !still_inside.contains(member.pid); });
  return members;
}

bool send_kill(const Member& member) {
  return ::syscall(SYS_pidfd_send_signal, member.pidfd.get(), SIGKILL, nullptr, 0) == 0 ||
         errno == ESRCH;
}

bool wait_for_end(const Member& member, Deadline deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd ended{.fd = member.pidfd.get(), .events = POLLIN};
    const int ready = ::poll(&ended, 1, std::max(0, static_cast<int>(left.count())));
    if (ready < 0 && errno == EINTR) continue;
    return check_syscall("poll", ready) > 0;
  }
}

// As kill_members, but returns only when the cgroup is empty or the deadline has passed.
bool end_members(int directory, Deadline deadline) {
  for (;;) {
    const std::vector<Member> members = open_members(directory);
    if (members.empty()) return true;
    if (!std::all_of(members.begin(), members.end(), send_kill)) return false;
    for (const Member& member : members) {
      if (!wait_for_end(member, deadline)) return false;
    }
  }
}

}  // namespace

bool kill_subtree(int directory) {
  const UniqueFd fd(::openat(directory, "cgroup.kill", O_WRONLY | O_CLOEXEC));
  return fd && ::write(fd.get(), "1", 1) == 1;
}

bool kill_members(int directory) {
  std::set<pid_t> signalled;
  for (int pass = 0; pass < kMostPasses; ++pass) {
    bool found_new = false;
    for (const Member& member : open_members(directory)) {
      if (!signalled.insert(member.pid).second) continue;
      if (!send_kill(member)) return false;
      found_new = true;
    }
    if (!found_new) return true;
  }
  return false;
}

bool has_members(int directory) {
  return !read_procs(directory).empty();
}

bool remove_tree(int parent, const std::string& name, Deadline deadline) {
  const UniqueFd directory(
      ::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!directory) return errno == ENOENT;
  kill_subtree(directory.get());
  for (const std::string& child : child_cgroups(directory.get())) {
    remove_tree(directory.get(), child, deadline);
  }
  if (!end_members(directory.get(), deadline)) return false;
  return ::unlinkat(parent, name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT;
}

bool remove_empty_tree(int parent, const std::string& name) {
  const UniqueFd directory(
      ::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!directory) return errno == ENOENT;
  if (!remove_empty_below(directory.get())) return false;
  return ::unlinkat(parent, name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT;
}

bool remove_empty_below(int directory) {
  bool gone = true;
  for (const std::string& child : child_cgroups(directory)) {
    gone = remove_empty_tree(directory, child) && gone;
  }
  return gone && !has_members(directory);
}

std::vector<std::string> child_cgroups(int directory) {
  UniqueFd own_offset = open_file_at(directory, ".", O_RDONLY | O_DIRECTORY);
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(own_offset.get()), ::closedir);
  if (!stream) throw SystemError("fdopendir", errno);
  own_offset.release();  // the stream closes it
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(stream.get())) {
    if (entry->d_type == DT_DIR && entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  return names;
}

}  // namespace caisson::backend::native
