#pragma once
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <string>

#include "async/patience.h"
#include "backend/guest_channel.h"

namespace caisson::backend {

class BoxResources;

// Sees to it that a process which was sent SIGKILL ends. One that does not, within a second and one
// more for each GiB that its box has to give back, is held by something that SIGKILL does not reach
// - a guest that hangs, a tracer that does not let go of it - and its box is destroyed: whoever
// waits for it is answered.
class KillWatch : public std::enable_shared_from_this<KillWatch> {
 public:
  KillWatch(const boost::asio::any_io_executor& executor, std::shared_ptr<GuestProcessState> state,
            std::shared_ptr<GuestChannel> channel, std::shared_ptr<BoxResources> resources);

  void begin() { look_later(); }
  // Nobody waits for the process any more.
  void stop();

 private:
  void look_later();
  void look();

  boost::asio::steady_timer timer_;
  Patience patience_;
  std::shared_ptr<GuestProcessState> state_;
  std::shared_ptr<GuestChannel> channel_;
  std::shared_ptr<BoxResources> resources_;
  bool gives_back_ = false;  // it has had its first second, and more for what its box holds
  bool stopped_ = false;
};

}  // namespace caisson::backend
