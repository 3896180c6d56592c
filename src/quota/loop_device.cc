#include "quota/loop_device.h"

#include <fcntl.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/error.h"
#include "base/file.h"
#include "base/str.h"

namespace caisson::quota {

namespace {

namespace fs = std::filesystem;

constexpr char kControl[] = "/dev/loop-control";
constexpr unsigned kBlockBytes = 4096;  // of the file system in it: what direct access needs

LoopDevice open_device(const std::string& path, int flags) {
  LoopDevice device{.fd = open_file(path, flags), .path = path};
  struct stat status {};
  check_syscall(path, ::fstat(device.fd.get(), &status));
  device.number = status.st_rdev;
  return device;
}

std::string free_device() {
  const UniqueFd control = open_file(kControl, O_RDWR);
  const int number = check_syscall(kControl, ::ioctl(control.get(), LOOP_CTL_GET_FREE));
  return str("/dev/loop", number);
}

// False, with errno, when it cannot be.
bool configure(int device, int image, unsigned flags) {
  loop_config config{};
  config.fd = static_cast<unsigned>(image);
  config.block_size = kBlockBytes;
  config.info.lo_flags = LO_FLAGS_AUTOCLEAR | flags;
  return ::ioctl(device, LOOP_CONFIGURE, &config) == 0;
}

std::optional<struct stat> status_of(const fs::path& image) {
  struct stat status {};
  if (::stat(image.c_str(), &status) == 0) return status;
  if (errno != ENOENT) throw SystemError(image.native(), errno);
  return std::nullopt;
}

// The device with this directory in /sys if the file is its content.
std::optional<LoopDevice> device_with_content(const fs::path& sys, const struct stat& file) {
  const std::string name = sys.filename();
  if (!name.starts_with("loop") || ::access((sys / "loop").c_str(), F_OK) < 0) return std::nullopt;
  const std::string path = str("/dev/", name);
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  loop_info64 info{};
  if (!fd || ::ioctl(fd.get(), LOOP_GET_STATUS64, &info) < 0) return std::nullopt;  // free by now
  if (info.lo_device != file.st_dev || info.lo_inode != file.st_ino) return std::nullopt;
  return open_device(path, O_RDONLY);
}

}  // namespace

LoopDevice make_loop_device(const fs::path& image) {
  const UniqueFd file = open_file(image, O_RDWR);
  for (;;) {
    const LoopDevice device = open_device(free_device(), O_RDWR);
    if (configure(device.fd.get(), file.get(), LO_FLAGS_DIRECT_IO) ||
        (errno == EINVAL && configure(device.fd.get(), file.get(), 0))) {
      // Kernels may refuse to mount what somebody has open for writing.
      return open_device(device.path, O_RDONLY);
    }
    // Somebody else took the device between the question and now.
    if (errno != EBUSY) throw SystemError(str(device.path, " for ", image.native()), errno);
  }
}

std::optional<LoopDevice> find_loop_device(const fs::path& image) {
  const std::optional<struct stat> file = status_of(image);
  if (!file) return std::nullopt;
  std::error_code absent;  // no block devices at all
  for (const fs::directory_entry& entry : fs::directory_iterator("/sys/block", absent)) {
    if (auto device = device_with_content(entry.path(), *file)) return device;
  }
  return std::nullopt;
}

bool is_loop_device_of(dev_t number, const fs::path& image) {
  const std::optional<struct stat> file = status_of(image);
  std::error_code absent;  // not a block device
  const fs::path device =
      fs::canonical(str("/sys/dev/block/", major(number), ":", minor(number)), absent);
  return file && !absent && device_with_content(device, *file).has_value();
}

// O_EXCL asks for the device as a mount has it. Programs that only look at devices do not disturb.
bool is_mounted(const LoopDevice& device) {
  const UniqueFd claim(::open(device.path.c_str(), O_RDONLY | O_EXCL | O_CLOEXEC));
  if (claim) return false;
  if (errno != EBUSY) throw SystemError(device.path, errno);
  return true;
}

std::string loop_device_problem() {
  try {
    open_device(free_device(), O_RDWR);
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace caisson::quota
