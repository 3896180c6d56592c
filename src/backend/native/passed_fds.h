#pragma once
#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "wire/plan.h"

namespace caisson::backend::native {

// The descriptors that travel with a launch; a plan names them by index.
class PassedFds {
 public:
  wire::FdIndex borrow(int fd) {
    fds_.push_back(fd);
    return static_cast<wire::FdIndex>(fds_.size() - 1);
  }
  wire::FdIndex keep(UniqueFd fd) {
    kept_.push_back(std::move(fd));
    return borrow(kept_.back().get());
  }
  const std::vector<int>& fds() const { return fds_; }

 private:
  std::vector<int> fds_;
  std::vector<UniqueFd> kept_;
};

}  // namespace caisson::backend::native
