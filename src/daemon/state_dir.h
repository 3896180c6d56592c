#pragma once
#include <csignal>
#include <filesystem>

#include "base/unique_fd.h"

namespace caisson::daemon {

// Tells a daemon that another one is about to take its place.
inline constexpr int kReplaceSignal = SIGUSR2;

// The directory in which one daemon keeps what must survive it; cli/settings.h says where it is.
// Locked while the object lives: the kernel gives the lock back however the process ends. One-shot
// commands use the images in it without the lock.
class StateDir {
 public:
  // Makes the directory, 0700, if it is missing. Throws when another daemon has it ("is in use by
  // pid N") and when others than this user could write to it.
  // With `replace` the other daemon is asked to leave its boxes and go (kReplaceSignal), and
  // waited for.
  explicit StateDir(const std::filesystem::path& path, bool replace = false);
  StateDir(StateDir&&) = default;
  StateDir& operator=(StateDir&&) = default;
  ~StateDir();

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path database() const { return path_ / "caisson.db"; }

 private:
  std::filesystem::path path_;
  UniqueFd lock_;
};

}  // namespace caisson::daemon
