#pragma once
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "backend/native/host.h"
#include "backend/native/identity.h"
#include "backend/native/plan_template.h"
#include "model/box_settings.h"
#include "model/isolation.h"
#include "wire/launch.h"

// Deciding what a box is made of. Everything here is pure: the same input gives the same plan, to
// the last mount option, and the launcher adds nothing of its own.
namespace caisson::backend::native {

// A mount in a box, prepared (fd) or, for an ordinary user, to be bound by path.
struct BoxMount {
  std::string target;
  wire::FdIndex fd = wire::kNoFd;
  std::string host_path;  // with kNoFd
  bool read_only = false;
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
};

// Everything a box's plan depends on besides the host. Descriptor indices refer to the list that
// travels with the launch.
struct BoxRequest {
  RootImage image;
  bool read_only_root = true;
  bool network = false;
  std::string workspace_path = "/workspace";  // gets a scratch directory unless a mount covers it
  std::vector<BoxMount> mounts;
  std::uint64_t scratch_bytes = 0;
  std::uint64_t scratch_inodes = 0;
  BoxIds ids;
  std::vector<wire::FdIndex> enter_cgroups;
  std::vector<wire::FdIndex> leave_cgroups;
  std::vector<std::string> cgroup_controllers;  // whose membership the guest proves
  wire::FdIndex user_namespace = wire::kNoFd;
  wire::FdIndex root_lower = wire::kNoFd;  // what a writable layer lies over: /usr, or the image
  std::string filter;                      // system call filter; empty: none
  bool cgroup_namespace = true;
  bool mask_proc = true;
  bool own_inodes = true;
  bool may_share_inodes = false;  // where own_inodes cannot be had
};

// How a box comes about: the process, and what finishes it. Boxes that share the root of their
// image all begin in the same way, so that a process can be kept ready for the next one.
struct BoxPlan {
  wire::LaunchBox launch;
  wire::FinishBox finish;
};
// Throws internal_error when the scratch file system would have no limit.
BoxPlan plan_box(const Host& host, const BoxRequest& request);

// Bytes and inodes of a box's scratch file system. Its pages count against the box's memory, so it
// gets half of it.
std::uint64_t scratch_bytes(std::int64_t memory_mb);
std::uint64_t scratch_inodes(std::uint64_t bytes);

// Why nothing may be mounted at this path of a box; empty when it may.
std::string target_refusal(const std::string& target);

// Whether the box can live in the root that all boxes of its image share, because every place it
// mounts something at exists there. Otherwise it gets a root of its own.
bool shares_root(const BoxRequest& request);

}  // namespace caisson::backend::native
