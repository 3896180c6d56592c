#pragma once
#include <sys/stat.h>

#include <cstdint>
#include <filesystem>

#include "backend/native/image_tree.h"

namespace caisson::backend::native {

enum class ImageSource { directory, archive };

struct ImportOutcome {
  ImageSource source = ImageSource::directory;
  std::uint64_t skipped = 0;       // device nodes, sockets and fifos: a box gets its own
  std::uint64_t mount_points = 0;  // left empty: other file systems are not copied
};

// Copies a directory, or unpacks a tar in any compression that libarchive reads by itself, into the
// tree. A pipe is read as a tar. Throws validation_error for hostile or unreadable content and for
// archives of layers (docker save, OCI layouts), naming `docker export` as the next step.
// `avoid` is a directory that is left out wherever it is met: the store itself.
ImportOutcome import_source(const std::filesystem::path& source, TreeWriter& tree,
                            const struct stat& avoid);

}  // namespace caisson::backend::native
