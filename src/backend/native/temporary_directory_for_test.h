#pragma once
#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/error.h"

namespace caisson::backend::native {

// An empty directory that is gone, with all that is in it, at the end of a test.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string pattern = "/tmp/caisson-test-XXXXXX";
    check_syscall(pattern, ::mkdtemp(pattern.data()) == nullptr ? -1 : 0);
    path_ = std::filesystem::canonical(pattern);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::filesystem::path& path() const { return path_; }
  std::string operator/(const std::string& name) const { return (path_ / name).native(); }

 private:
  std::filesystem::path path_;
};

}  // namespace caisson::backend::native
