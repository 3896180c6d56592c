#pragma once
#include <string>

#include "base/unique_fd.h"

namespace caisson::skill {

// Fills a directory that is empty and nobody else's. Paths are relative and in normal form; parents
// are made as needed; nothing that exists is replaced and no symlink followed. Modes are 0755 for
// directories and programs and 0644 for other files, whatever the umask.
class NewTree {
 public:
  explicit NewTree(int root) : root_(root) {}  // borrowed

  void add_directory(const std::string& path);
  UniqueFd add_file(const std::string& path, bool is_executable);  // empty, for writing

 private:
  UniqueFd open_directory(const std::string& path);

  int root_;
};

// Copies a directory that others may be changing: files and directories, nothing else, within the
// limits of archives. Throws validation_error for a symlink, for a device and the like, and beyond
// a limit.
void copy_package(int source, int target);

}  // namespace caisson::skill
