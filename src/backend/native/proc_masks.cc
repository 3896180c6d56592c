#include "backend/native/proc_masks.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <set>
#include <string_view>

#include "base/str.h"

namespace caisson::backend::native {

namespace {

// What programs read about memory, processors, load and what the kernel offers; `sysvipc` is of the
// box's own IPC namespace, and `tty` names the drivers that `ps` shows terminals by.
constexpr std::string_view kKept[] = {"cgroups", "cpuinfo", "filesystems", "loadavg",
                                      "meminfo", "stat",    "sys",         "sysvipc",
                                      "tty",     "uptime",  "version",     "vmstat"};

// Masked also where only root may read them, or where a module may still bring them.
constexpr std::string_view kAlwaysMasked[] = {"acpi", "kcore",       "key-users",     "keys",
                                              "scsi", "sched_debug", "sysrq-trigger", "timer_list"};

}  // namespace

std::vector<std::string> readable_proc_entries() {
  namespace fs = std::filesystem;
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc")) {
    std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") == std::string::npos) continue;
    std::error_code error;
    const fs::file_status status = entry.symlink_status(error);
    if (error || fs::is_symlink(status)) continue;
    const bool readable = (status.permissions() & fs::perms::others_read) != fs::perms::none;
    if (readable || fs::is_directory(status)) names.push_back(std::move(name));
  }
  return names;
}

std::vector<std::string> masked_proc_paths(const std::vector<std::string>& entries) {
  std::set<std::string_view> names(std::begin(kAlwaysMasked), std::end(kAlwaysMasked));
  names.insert(entries.begin(), entries.end());
  for (const std::string_view kept : kKept) names.erase(kept);
  std::vector<std::string> paths;
  paths.reserve(names.size());
  for (const std::string_view name : names) paths.push_back(str("/proc/", name));
  return paths;
}

std::vector<std::string> read_only_proc_paths() {
  return {"/proc/sys"};
}

}  // namespace caisson::backend::native
