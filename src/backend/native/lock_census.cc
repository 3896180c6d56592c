#include "backend/native/lock_census.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <memory>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/str.h"
#include "base/text.h"
#include "base/unique_fd.h"

namespace caisson::backend::native {

namespace {

constexpr std::size_t kMostLines = 16'384;
// The kernel stops all locking for every page of the list, which takes long on a busy machine.
constexpr auto kPatience = std::chrono::seconds(5);
constexpr std::uint64_t kGrowthKb = 32u << 10;
constexpr int kMostAncestors = 4096;

// The parent of a process; 0 when there is none, or no such process.
pid_t parent_of(pid_t process) {
  const std::optional<std::string> stat = find_file_content(str("/proc/", process, "/stat"));
  if (!stat) return 0;
  // The name, in parentheses, may hold anything; what follows it is "S 123".
  const std::size_t end = stat->rfind(')');
  if (end == std::string::npos) return 0;
  const std::vector<std::string_view> words =
      split(trim(std::string_view(*stat).substr(end + 1)), ' ');
  const auto parent = words.size() > 1 ? parse_integer(words[1]) : std::nullopt;
  return parent ? static_cast<pid_t>(*parent) : 0;
}

// Every process of a box descends from its guest, which orphans are given to.
std::optional<pid_t> guest_of(const std::set<pid_t>& guests, pid_t process) {
  for (int i = 0; i < kMostAncestors && process > 1; ++i, process = parent_of(process)) {
    if (guests.contains(process)) return process;
  }
  return std::nullopt;
}

void for_each_number(const std::string& directory, const std::function<bool(pid_t)>& visit) {
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::opendir(directory.c_str()), ::closedir);
  while (const dirent* entry = stream ? ::readdir(stream.get()) : nullptr) {
    const auto number = parse_integer(entry->d_name);
    if (number && !visit(static_cast<pid_t>(*number))) return;
  }
}

// Whether what is open is the file that /proc/locks names. An overlay tells another device than the
// one its locks are listed with.
bool is_file(const std::string& open_file, const std::string& wanted) {
  struct stat info {};
  if (::stat(open_file.c_str(), &info) < 0) return false;
  char device[32];
  std::snprintf(device, sizeof device, "%02x:%02x:", major(info.st_dev), minor(info.st_dev));
  const std::string inode = std::to_string(info.st_ino);
  if (str(device, inode) == wanted) return true;
  struct statfs system {};
  return wanted.ends_with(str(":", inode)) && ::statfs(open_file.c_str(), &system) == 0 &&
         system.f_type == OVERLAYFS_SUPER_MAGIC;
}

// A lock goes when any descriptor of the file is closed in the table that it was taken through, so
// somebody who shares the table has it open. Threads may have tables of their own.
bool has_open(pid_t process, const std::string& file) {
  bool found = false;
  const std::string tasks = str("/proc/", process, "/task");
  for_each_number(tasks, [&](pid_t thread) {
    const std::string fds = str(tasks, "/", thread, "/fd");
    for_each_number(fds, [&](pid_t fd) { return !(found = is_file(str(fds, "/", fd), file)); });
    return !found;
  });
  return found;
}

// From an ordinary user a process can hide what it has open; it is not believed to have nothing.
bool hides_descriptors(pid_t process) {
  const int fds = ::open(str("/proc/", process, "/fd").c_str(), O_RDONLY | O_CLOEXEC);
  return !UniqueFd(fds) && errno == EACCES;
}

std::optional<pid_t> find_opener(const std::set<pid_t>& guests, const std::string& file) {
  std::optional<pid_t> opener;
  for_each_number("/proc", [&](pid_t process) {
    const std::optional<pid_t> guest = guest_of(guests, process);
    if (guest && has_open(process, file)) opener = guest;
    return !opener;
  });
  return opener;
}

}  // namespace

// "12: POSIX  ADVISORY  WRITE 4711 fe:00:9977926 0 EOF"; of one that is waited for "12: -> POSIX".
std::optional<HeldLock> parse_lock(std::string_view line) {
  std::vector<std::string_view> words = split(line, ' ');
  std::erase(words, "");
  if (words.size() < 6 || words[1] == "->") return std::nullopt;
  const auto holder = parse_integer(words[4]);
  if (!holder) return std::nullopt;
  return HeldLock{.holder = static_cast<pid_t>(*holder), .file = std::string(words[5])};
}

bool LockCensus::count(std::string_view line) {
  const std::optional<HeldLock> lock = parse_lock(line);
  if (!lock) return true;
  auto known = holders_.find(lock->holder);
  if (known == holders_.end()) {
    known = holders_.emplace(lock->holder, Holder{find_guest_(lock->holder), 0}).first;
  }
  Holder& holder = known->second;
  if (!holder.guest) {
    ++by_file_[lock->file];
    return true;
  }
  ++holder.locks;
  std::uint64_t& locks = by_guest_[*holder.guest];
  if (++locks <= kMostLocks) return true;
  if (has_open_(lock->holder, lock->file)) {
    culprit_ = Culprit{.guest = *holder.guest, .locks = locks};
    return false;
  }
  // Another process has the number of who took the lock and ended.
  locks -= holder.locks;
  by_file_[lock->file] += holder.locks;
  holder.guest.reset();
  return true;
}

std::optional<std::string> LockCensus::crowded_file() const {
  const auto most = std::max_element(by_file_.begin(), by_file_.end(),
                                     [](auto& a, auto& b) { return a.second < b.second; });
  if (most == by_file_.end() || most->second <= kMostLocks) return std::nullopt;
  return most->first;
}

LockLook look_for_lock_hoarder(const std::set<pid_t>& guests) {
  LockCensus census([&](pid_t process) { return guest_of(guests, process); },
                    [](pid_t process, const std::string& file) {
                      return hides_descriptors(process) || has_open(process, file);
                    });
  const UniqueFd locks = open_file("/proc/locks", O_RDONLY);
  // The kernel gives whole lines, a page of them at a time.
  std::string buffer(1u << 16, '\0');
  bool more = true;
  const Deadline deadline = Clock::now() + kPatience;
  for (std::size_t lines = 0; more && lines < kMostLines;) {
    if (Clock::now() > deadline) return {.culprit = std::nullopt, .complete = false};
    const ssize_t got = ::read(locks.get(), buffer.data(), buffer.size());
    check_syscall("/proc/locks", got);
    if (got == 0) break;
    for (const std::string_view line :
         split(std::string_view(buffer).substr(0, static_cast<std::size_t>(got)), '\n')) {
      ++lines;
      more = more && census.count(line);
    }
  }
  if (census.culprit()) return {.culprit = census.culprit()};
  const std::optional<std::string> file = census.crowded_file();
  const std::optional<pid_t> guest = file ? find_opener(guests, *file) : std::nullopt;
  if (!guest) return {};
  return {.culprit = LockCensus::Culprit{.guest = *guest, .locks = kMostLocks + 1}};
}

bool KernelGrowth::worth_a_look(std::string_view meminfo) {
  constexpr std::string_view kKey = "SUnreclaim:";
  const std::size_t at = meminfo.find(kKey);
  if (at == std::string_view::npos) return false;
  std::string_view rest = meminfo.substr(at + kKey.size());
  rest = trim(rest.substr(0, rest.find("kB")));
  const auto number = parse_integer(rest);
  if (!number || *number < 0) return false;
  const auto now = static_cast<std::uint64_t>(*number);
  least_kb_ = std::min(least_kb_.value_or(now), now);
  if (now < *least_kb_ + kGrowthKb) return false;
  least_kb_ = now;
  return true;
}

}  // namespace caisson::backend::native
