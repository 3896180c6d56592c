#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "async/task.h"
#include "backend/native/launcher_client.h"
#include "backend/native/mount_source.h"
#include "backend/native/passed_fds.h"
#include "backend/native/plan.h"
#include "backend/native/slots.h"
#include "model/box_settings.h"

// From the host paths settings name to mounts that travel with a launch.
namespace caisson::backend::native {

// A host path that goes into the box: judged, not yet mounted.
struct WantedMount {
  MountSource source;
  std::string target;
  model::MountMode mode = model::MountMode::rw;
  bool translated = true;  // its owners become the payload's
};

// Opens every host path of the settings and makes the mount points of mounts inside mounts. What
// lies in them and the box must not see is covered by `empty`, a directory that is made if it is
// missing. Throws mount_refused.
std::vector<WantedMount> open_mounts(const model::BoxSettings& settings,
                                     const model::MountRules& rules,
                                     const std::filesystem::path& empty);

// Adds the mounts to the request, with the payload as the owner of what their owners have. Gives
// the reason when a file system cannot do that; its mount is then there with the owners as they
// are. With `translate` false none is translated.
Task<std::string> prepare_mounts(std::vector<WantedMount> wanted, bool translate,
                                 BoxRequest& request, PassedFds& passed, Slots::Lease slot,
                                 std::shared_ptr<LauncherClient> launcher);

// Adds the tree that a root of the box's own lies over, if it needs one. Files of a writable root
// belong to the payload, or it could not change them.
Task<void> prepare_root(BoxRequest& request, PassedFds& passed, Slots::Lease slot,
                        std::shared_ptr<LauncherClient> launcher);

}  // namespace caisson::backend::native
