#include "api/backend_probe.h"

#include <optional>

namespace caisson::api {

Task<backend::BackendStatus> BackendProbe::status() {
  if (is_fresh()) co_return last_;
  const std::optional<Turns::Turn> turn = co_await turns_.take();
  if (is_fresh()) co_return last_;  // somebody before us in the queue has asked
  backend::BackendStatus status = co_await ask_();
  last_ = std::move(status);
  asked_ = Clock::now();
  ever_ = true;
  co_return last_;
}

}  // namespace caisson::api
