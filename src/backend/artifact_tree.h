#pragma once
#include <filesystem>
#include <string>

#include "base/unique_fd.h"

namespace caisson::backend {

// Trees of files that a box is shown by the digest of their content. What their maker has on disk
// can change while it is looked at, so a box never sees it: it sees a copy that nobody else writes
// to, and that was verified, file by file, while it was made. Everything here blocks.

// The copy in `copies`, the box's own directory, which is made when it is missing; nothing happens
// when it is there already. `source` is the tree and `manifest` the file that tells what it holds;
// both may be descriptors of O_PATH. Throws artifact_refused.
UniqueFd copy_artifact(int source, int manifest, const std::string& digest,
                       const std::filesystem::path& copies);

// One copy, by its digest; what is not there is no error.
void remove_artifact(const std::filesystem::path& copies, const std::string& digest);

}  // namespace caisson::backend
