#pragma once
#include <sys/mount.h>

#include <filesystem>
#include <string>

#include "base/error.h"
#include "base/temporary_directory.h"
#include "store/session_record.h"

namespace caisson::store {

// A small file system of its own on a directory. Takes root.
class SmallFileSystem {
 public:
  explicit SmallFileSystem(const std::string& options)
      : mounted_(::mount("tmpfs", directory_.path().c_str(), "tmpfs", 0, options.c_str()) == 0) {}
  SmallFileSystem(const SmallFileSystem&) = delete;
  SmallFileSystem& operator=(const SmallFileSystem&) = delete;
  ~SmallFileSystem() {
    if (mounted_) ::umount2(directory_.path().c_str(), MNT_DETACH);
  }
  bool mounted() const { return mounted_; }
  void remount(unsigned long flags, const std::string& options = "") const {
    check_syscall("remount", ::mount(nullptr, directory_.path().c_str(), nullptr,
                                     MS_REMOUNT | flags, options.c_str()));
  }
  std::filesystem::path operator/(const std::string& name) const { return directory_ / name; }

 private:
  TemporaryDirectory directory_;
  bool mounted_;
};

inline SessionRecord sample(const std::string& id) {
  SessionRecord record{
      .session_id = id,
      .backend_name = "native",
      .backend_session_id = "box-" + id,
      .created_at = model::Timestamp(std::chrono::microseconds(1'700'000'000'123)),
      .last_used_at = model::Timestamp(std::chrono::microseconds(1'700'000'000'456)),
      .owner = 3};
  record.settings.host_path = "/value of " + id;
  return record;
}

}  // namespace caisson::store
