#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "base/unique_fd.h"

// Mounts as descriptors (mount_setattr(2) and its siblings). A mount that was never attached goes
// with its last descriptor, so a crash before that leaves nothing.
namespace caisson::quota {

struct MountOption {
  std::string name;
  std::string value;  // empty: a flag
};

// A new file system as a detached mount, nosuid and nodev. An error has what the kernel said.
UniqueFd new_mount(const std::string& type, const std::vector<MountOption>& options);

// Gives the file system that is mounted at the path other options.
void reconfigure(const std::filesystem::path& mounted, const std::vector<MountOption>& options);

// A detached copy of the mount that the path lies in, beginning at the path, without what is
// mounted below: openat() from it sees what mounts cover.
UniqueFd clone_mount(const std::filesystem::path& path);

// The directory itself, whatever is mounted on it.
UniqueFd open_uncovered(const std::filesystem::path& directory);

// Whether something is mounted on the directory.
bool is_mount_point(const std::filesystem::path& directory);

// Mounts directory `inside` of the detached mount ("": its root) at the path. Kernels before 6.15
// take a part only from a mount that is attached somewhere: `staging`, a path of ours, then is it
// for a moment.
void attach(int mount, const std::string& inside, const std::filesystem::path& path,
            const std::filesystem::path& staging);

// Throws busy when a process of this mount namespace uses it.
void unmount(const std::filesystem::path& path);

}  // namespace caisson::quota
