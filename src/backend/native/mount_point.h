#pragma once
#include <string>

#include "backend/native/mount_source.h"

namespace caisson::backend::native {

// Makes the directory (or empty file) `relative` below a mounted directory, so that something can
// be mounted there; what is missing belongs to the directory's owner. Follows no symbolic link.
void make_mount_point(const MountSource& directory, const std::string& relative, bool is_directory);

}  // namespace caisson::backend::native
