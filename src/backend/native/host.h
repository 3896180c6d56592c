#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace caisson::backend::native {

// What of this host a plan depends on. Read once; plans are pure functions of it.
struct Host {
  bool privileged = false;  // root with CAP_SYS_ADMIN: the full set of layers

  // Top-level system directories: a symbolic link that is made again (merged /usr) or a directory.
  struct RootEntry {
    std::string path;  // "/bin"
    std::string link;  // "usr/bin"; empty: bind the directory
    bool operator==(const RootEntry&) const = default;
  };
  std::vector<RootEntry> root_entries;
  // What is mounted inside these, outer mounts first.
  std::vector<std::string> mounted_directories;
  std::vector<std::string> mounted_files;
  // What programs need of /etc: directories that are bound, files that are copied. A bound file
  // would cost every box a mount, and show the old content anyway once the host replaces it.
  std::vector<std::string> etc_directories;
  std::vector<std::pair<std::string, std::string>> etc_files;
  // Of the commands that servers expect, those that boxes have from here, by name: their paths.
  std::map<std::string, std::string> commands;
  std::vector<std::string> masked_paths;  // see proc_masks.h
  std::string hostname = "box";
  std::string resolv_conf;       // for boxes with a network
  std::string resolver_problem;  // why names cannot be resolved in boxes; empty: they can
  std::string resolver_fix;
  std::vector<std::uint64_t> namespaces;  // inodes of ours: user mnt pid ipc uts cgroup net
  // What processes of a box get, within our own hard limits.
  std::uint64_t max_open_files = 1024;
  std::uint64_t max_pending_signals = 1024;  // queued ones and timers, of the whole box
  std::uint64_t max_message_queue_bytes = 0;
  // 1: no core file, and nothing for a program that core_pattern pipes cores to. With 0 the kernel
  // would start that all the same.
  std::uint64_t max_core_bytes = 0;
};

Host inspect_host();

// The mount points of mountinfo that lie inside one of the root entries, outer ones first. Names
// that an overlay could not be told of are left out.
std::vector<std::string> mounts_inside(std::string_view mountinfo,
                                       const std::vector<Host::RootEntry>& entries);

// The files of /etc that are written for a box rather than taken from the host.
std::vector<std::pair<std::string, std::string>> generated_files(const Host& host);

// `base` with the lines of the box's users added where their names and ids are free.
std::string passwd_with_box_user(std::string_view base);
std::string group_with_box_user(std::string_view base);

}  // namespace caisson::backend::native
