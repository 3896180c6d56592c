#pragma once
#include <filesystem>

#include "quota/quota.h"

// Directory trees that others have filled: no link is followed, and what is deeper than
// kDeepestTree is an error instead of a lack of descriptors. Descriptors are of directories.
namespace caisson::quota {

// Copies everything below `from` into `to`: contents with their holes, owners, modes, times,
// extended attributes, hard links. What the target file system cannot hold of the attributes is
// left out.
void copy_tree(int from, int to);

// Owner, mode, times and extended attributes of the directory itself.
void copy_attributes(int from, int to);

// The limit that what is below the directory would just keep.
Limit needed_by(int directory);

// Removes everything below it.
void empty_tree(int directory);
// Removes it with everything below it; what is gone already is not an error.
void remove_directory(const std::filesystem::path& path);

// Everything that was written there is on the disk afterwards.
void sync_tree(int directory, const std::filesystem::path& name);

}  // namespace caisson::quota
