#pragma once
#include <boost/asio/any_io_executor.hpp>
#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "async/task.h"
#include "async/turns.h"
#include "backend/backend.h"
#include "base/clock.h"

namespace caisson::api {

// Whether the backend can make boxes. To find out means making one, so it is asked now and then
// rather than at every request, and once however many want to know: probes need no token.
class BackendProbe {
 public:
  using Ask = std::function<Task<backend::BackendStatus>()>;
  BackendProbe(const boost::asio::any_io_executor& executor, std::string name, Ask ask,
               std::chrono::seconds good_for)
      : name_(std::move(name)), ask_(std::move(ask)), good_for_(good_for), turns_(executor) {}

  // The last answer while it is fresh; otherwise a new one.
  Task<backend::BackendStatus> status();
  std::string_view backend_name() const { return name_; }

 private:
  bool is_fresh() const { return ever_ && Clock::now() - asked_ < good_for_; }

  const std::string name_;
  const Ask ask_;
  const std::chrono::seconds good_for_;
  Turns turns_;  // one asks, the others wait for its answer
  backend::BackendStatus last_;
  Deadline asked_{};
  bool ever_ = false;
};

}  // namespace caisson::api
