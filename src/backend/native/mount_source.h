#pragma once
#include <sys/types.h>

#include <cstdint>
#include <string>

#include "base/unique_fd.h"
#include "model/box_settings.h"
#include "model/mount_rules.h"

namespace caisson::backend::native {

// A host path that may be mounted into a box: judged once, by what it really is, and held by a
// descriptor, so that nothing can be swapped in between the check and the use.
struct MountSource {
  UniqueFd place;        // O_PATH
  std::string resolved;  // where it really is, symbolic links followed
  bool is_directory = true;
  uid_t owner = 0;
  gid_t group = 0;
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
};

// Opens and judges. A missing directory that is to be mounted read-write is made. Throws
// mount_refused for what no box may see.
MountSource open_mount_source(const std::string& host_path, model::MountMode mode,
                              const model::MountRules& rules);

// A detached mount of the source: nosuid, nodev, read-only unless rw; with owners translated when
// `idmap` is a user namespace (-1: not). Throws SystemError, EINVAL when the file system cannot do
// that.
UniqueFd detached_mount(const MountSource& source, model::MountMode mode, int idmap);

}  // namespace caisson::backend::native
