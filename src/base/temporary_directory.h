#pragma once
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "base/error.h"

namespace caisson {

// An empty directory that is gone, with all that is in it, with the object. For tests and
// benchmarks. Others than its owner can enter it only with the mode to match: a user of a box is
// another one.
class TemporaryDirectory {
 public:
  explicit TemporaryDirectory(mode_t mode = 0700) {
    std::string pattern = (std::filesystem::temp_directory_path() / "caisson-XXXXXX").native();
    check_syscall(pattern, ::mkdtemp(pattern.data()) == nullptr ? -1 : 0);
    check_syscall(pattern, ::chmod(pattern.c_str(), mode));
    path_ = std::filesystem::canonical(pattern);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory() {
    std::error_code ignored;  // what is left is the host's to remove
    std::filesystem::remove_all(path_, ignored);
  }

  const std::filesystem::path& path() const { return path_; }
  std::string operator/(const std::string& name) const { return (path_ / name).native(); }

 private:
  std::filesystem::path path_;
};

}  // namespace caisson
