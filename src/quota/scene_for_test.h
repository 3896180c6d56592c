#pragma once
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/str.h"
#include "base/temporary_directory.h"
#include "base/text.h"
#include "quota/choose.h"
#include "quota/loop_device.h"
#include "quota/loop_volumes.h"
#include "quota/mounted.h"
#include "quota/tmpfs_volumes.h"
#include "quota/tool.h"

namespace caisson::quota {

// Why tests of this kind cannot run here; empty when they can.
inline std::string reason_to_skip(const std::string& driver) {
  if (!is_host_admin(read_file("/proc/self/status"), read_file("/proc/self/uid_map"))) {
    return "mounts need root";
  }
  if (driver == "tmpfs") return {};
  for (const char* tool : {"mkfs.ext4", "e2fsck"}) {
    if (driver == "loop" && !find_tool(tool)) return str(tool, " is not installed");
  }
  if (driver == "btrfs" && !find_tool("mkfs.btrfs")) return "mkfs.btrfs is not installed";
  return loop_device_problem();
}

inline std::vector<std::string> mounts_below(const std::filesystem::path& directory) {
  std::vector<std::string> found;
  const std::string table = read_file("/proc/self/mountinfo");
  for (const std::string_view line : split(table, '\n')) {
    const std::vector<std::string_view> words = split(line, ' ');
    if (words.size() > 4 && words[4].starts_with(directory.native())) found.emplace_back(words[4]);
  }
  return found;
}

// Files below the directory that are the content of a loop device, even of one that was removed.
inline std::vector<std::string> loop_devices_below(const std::filesystem::path& directory) {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/block")) {
    const auto backing = find_file_content(entry.path() / "loop/backing_file");
    if (backing && backing->starts_with(directory.native())) found.push_back(*backing);
  }
  return found;
}

// Takes the process into a mount namespace of its own, once: whatever a test leaves mounted, and
// with it every loop device, is gone when the process is.
inline void leave_the_hosts_mounts() {
  static const bool done = [] {
    check_syscall("unshare", ::unshare(CLONE_NEWNS));
    check_syscall("mount", ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr));
    return true;
  }();
  static_cast<void>(done);
}

// A temporary directory in which things may be mounted.
class Scene {
 public:
  Scene() { leave_the_hosts_mounts(); }
  ~Scene() {
    std::vector<std::string> mounts = mounts_below(directory_.path());
    for (auto mount = mounts.rbegin(); mount != mounts.rend(); ++mount) {
      ::umount2(mount->c_str(), MNT_DETACH);
    }
  }

  std::string operator/(const std::string& name) const { return directory_ / name; }
  const std::filesystem::path& path() const { return directory_.path(); }

 private:
  TemporaryDirectory directory_;
};

inline void write_text(const std::filesystem::path& path, const std::string& text) {
  const UniqueFd fd = open_file(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  write_all(fd.get(), text, path.native());
}

// Path below the directory -> content, "/" for directories.
inline std::map<std::string, std::string> contents(const std::filesystem::path& directory) {
  std::map<std::string, std::string> found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
    const std::string name = entry.path().lexically_relative(directory);
    found[name] = entry.is_directory() ? "/" : read_file(entry.path());
  }
  return found;
}

// Writes to a file until the kernel refuses; `error_number` is why.
inline std::uint64_t fill_bytes(const std::filesystem::path& file, std::uint64_t most,
                                int& error_number) {
  const UniqueFd fd = open_file(file, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  const std::string block(1u << 20, 'x');
  std::uint64_t written = 0;
  for (std::size_t size = block.size(); written < most;) {
    const ssize_t put = ::write(fd.get(), block.data(), size);
    if (put >= 0) {
      written += static_cast<std::uint64_t>(put);
    } else if (size > 4096) {
      size = 4096;
    } else {
      error_number = errno;
      return written;
    }
  }
  error_number = 0;
  return written;
}

// Makes empty files until the kernel refuses.
inline std::uint64_t fill_inodes(const std::filesystem::path& directory, std::uint64_t most,
                                 int& error_number) {
  for (std::uint64_t made = 0; made < most; ++made) {
    const std::string path = directory / str("file", made);
    const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (fd) continue;
    error_number = errno;
    return made;
  }
  error_number = 0;
  return most;
}

// |seen - limit| <= 1 % of the limit.
inline bool is_within_a_percent(std::uint64_t seen, std::uint64_t limit) {
  return seen * 100 >= limit * 99 && seen * 100 <= limit * 101;
}

inline ErrorCode code_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code();
  }
  return ErrorCode::internal_error;
}

inline std::unique_ptr<Driver> mounted_driver(const std::string& name,
                                              const std::filesystem::path& state) {
  if (name == "tmpfs") return std::make_unique<Mounted>(state, std::make_unique<TmpfsVolumes>());
  return std::make_unique<Mounted>(state, std::make_unique<LoopVolumes>(state));
}

}  // namespace caisson::quota
