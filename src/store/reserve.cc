#include "store/reserve.h"

#include <fcntl.h>
#include <unistd.h>

#include <utility>

#include "base/unique_fd.h"

namespace caisson::store {

namespace {
constexpr off_t kReserveBytes = 512 << 10;
}

Reserve::Reserve(std::filesystem::path file) : file_(std::move(file)) {
  refill();
}

bool Reserve::release() {
  if (!std::exchange(held_, false)) return false;
  return ::unlink(file_.c_str()) == 0;
}

void Reserve::refill() {
  if (held_) return;
  const UniqueFd fd(::open(file_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  held_ = fd.valid() && ::posix_fallocate(fd.get(), 0, kReserveBytes) == 0;
  if (fd.valid() && !held_) ::unlink(file_.c_str());
}

}  // namespace caisson::store
