#pragma once
#include <cstdint>
#include <initializer_list>
#include <string>

#include "base/unique_fd.h"

// The system calls that make mounts. All but open_in_root() throw a StepError that names `what`.
namespace caisson::guest {

// MOUNT_ATTR_* for the flags of a step.
std::uint64_t attributes(std::uint32_t flags);

// Resolves `path` as if `root` were "/": links and ".." cannot lead out of it. -1 and errno.
int open_in_root(int root, const std::string& path, std::uint64_t flags);

struct FileSystemOption {
  const char* name;
  std::string value;  // empty: the option is a flag
};

// A new file system as a detached mount.
UniqueFd new_file_system(const char* type, std::initializer_list<FileSystemOption> options,
                         std::uint64_t mount_attributes, const std::string& what);

// A copy of a tree of mounts, detached. An empty path: of `directory` itself.
UniqueFd clone_tree(int directory, const std::string& path, const std::string& what);

// For all mounts of a detached tree, which become private. `idmap` is a user namespace, or -1.
void set_attributes(int mount, std::uint64_t set, int idmap, const std::string& what);

}  // namespace caisson::guest
