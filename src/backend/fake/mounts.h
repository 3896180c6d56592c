#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "model/box_settings.h"

namespace caisson::backend::fake {

// A host directory that a simulated box really sees.
struct Mount {
  std::string path;  // in the box, normal
  UniqueFd root;     // the directory, opened after its resolved path had passed the check
  bool writable = false;
};

// Opens every mount of the settings whose mode is not `none`; the longest box path comes first. A
// missing writable directory is created. Throws mount_refused for a source that is, holds or lies
// in a directory of the host that no box may see.
std::vector<Mount> open_mounts(const model::BoxSettings& settings);

// An artifact is shown as a verified copy in this directory.
Mount open_artifact(const model::MountSpec& mount, const std::filesystem::path& copies);

}  // namespace caisson::backend::fake
