#pragma once
#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>

#include "base/unique_fd.h"

namespace caisson::quota {

// A block device whose content is a file. The kernel frees it when its last user has gone, be that
// a descriptor or a mount (LO_FLAGS_AUTOCLEAR).
struct LoopDevice {
  UniqueFd fd;
  std::string path;
  dev_t number = 0;
};

// Past the page cache where the file system below allows it: with it everything would be cached
// twice.
LoopDevice make_loop_device(const std::filesystem::path& image);

// The device that has this file as its content. Two of one file would destroy it.
std::optional<LoopDevice> find_loop_device(const std::filesystem::path& image);

// Whether the block device of this number is one whose content is this file.
bool is_loop_device_of(dev_t number, const std::filesystem::path& image);

// Whether a file system on the device is mounted, in whatever mount namespace.
bool is_mounted(const LoopDevice& device);

// Why loop devices cannot be used here; empty when they can.
std::string loop_device_problem();

}  // namespace caisson::quota
