#include "support.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "base/unique_fd.h"

namespace caisson::payload {
namespace {

bool holds_no_files(std::string_view type) {
  static const std::set<std::string_view> kTypes = {"proc",   "sysfs",   "cgroup",     "cgroup2",
                                                    "devpts", "mqueue",  "securityfs", "debugfs",
                                                    "bpf",    "tracefs", "pstore",     "nsfs"};
  return kTypes.contains(type);
}

}  // namespace

TempDir::TempDir(const std::string& parent) : path_(parent + "/caisson-probe-XXXXXX") {
  if (::mkdtemp(path_.data()) == nullptr) path_.clear();
}

TempDir::~TempDir() {
  std::error_code ignored;
  if (valid()) std::filesystem::remove_all(path_, ignored);
}

std::string TempDir::file(std::string_view name) const {
  return path_ + "/" + std::string(name);
}

std::string content_of(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string content;
  char buffer[4096];
  while (fd && content.size() < (1u << 20)) {
    const ssize_t length = ::read(fd.get(), buffer, sizeof buffer);
    if (length <= 0) break;
    content.append(buffer, static_cast<std::size_t>(length));
  }
  return content;
}

std::vector<std::string> lines_of(const std::string& path) {
  return words_of(content_of(path), '\n');
}

std::vector<std::string> words_of(std::string_view text, char separator) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    if (end > 0) words.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

std::vector<std::string> names_in(const std::string& directory) {
  std::vector<std::string> names;
  DIR* stream = ::opendir(directory.c_str());
  if (stream == nullptr) return names;
  while (const dirent* entry = ::readdir(stream)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  ::closedir(stream);
  return names;
}

std::vector<Mount> mounts() {
  std::vector<Mount> found;
  for (const std::string& line : lines_of("/proc/self/mountinfo")) {
    const std::size_t dash = line.find(" - ");
    const std::vector<std::string> fields = words_of(line);
    if (dash == std::string::npos || fields.size() < 5) continue;
    const std::vector<std::string> tail = words_of(std::string_view(line).substr(dash + 3));
    if (!tail.empty()) found.push_back({fields[4], tail[0]});
  }
  return found;
}

std::vector<std::string> writable_places() {
  std::vector<std::string> candidates = {"/tmp", "/var/tmp", "/dev/shm", "/run", "/workspace"};
  if (const char* home = std::getenv("HOME")) candidates.emplace_back(home);
  for (const Mount& mount : mounts()) {
    if (!holds_no_files(mount.type)) candidates.push_back(mount.path);
  }
  std::vector<std::string> places;
  for (const std::string& path : candidates) {
    const bool known = std::find(places.begin(), places.end(), path) != places.end();
    if (known || !std::filesystem::is_directory(path)) continue;
    if (::access(path.c_str(), W_OK | X_OK) == 0) places.push_back(path);
  }
  return places;
}

std::vector<int> open_descriptors() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const int last = static_cast<int>(std::min<rlim_t>(limit.rlim_max, 65536));
  std::vector<int> open;
  for (int fd = 0; fd < last; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0) open.push_back(fd);
  }
  return open;
}

double number_or(const std::string& text, double fallback) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  return end == text.c_str() ? fallback : value;
}

void end_with_parent(pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);  // it ended before we asked
}

void wait_for_end_of_input() {
  char buffer[4096];
  while (::read(STDIN_FILENO, buffer, sizeof buffer) > 0) {
  }
}

}  // namespace caisson::payload
