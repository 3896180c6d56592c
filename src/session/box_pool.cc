#include "session/box_pool.h"

#include <algorithm>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "model/box_fields.h"

namespace caisson::session {

namespace {

constexpr auto kPatience = std::chrono::milliseconds(10);

}  // namespace

std::optional<model::BoxSettings> shape_of(const model::BoxSettings& settings) {
  const auto shown = [](const model::MountSpec& mount) {
    return mount.mode != model::MountMode::none;
  };
  if (settings.host_path && settings.host_path_mode != model::MountMode::none) return std::nullopt;
  if (std::ranges::any_of(settings.extra_mounts, shown)) return std::nullopt;
  return model::kind_of(settings);
}

BoxPool::BoxPool(const boost::asio::any_io_executor& executor, backend::Backend& backend,
                 std::size_t kinds)
    : backend_(backend), kinds_(kinds), executor_(executor), tasks_(executor) {}

void BoxPool::warm_up() {
  if (kinds_ == 0) return;
  const model::BoxSettings shape = *shape_of(model::BoxSettings{});
  kind_of(shape).being_made = true;
  tasks_.spawn("make the first box ahead", make(shape));
}

Task<ReadyBox> BoxPool::acquire(model::BoxSettings settings) {
  const std::optional<model::BoxSettings> shape =
      kinds_ > 0 && !stopping_ ? shape_of(settings) : std::nullopt;
  ReadyBox result;
  if (shape) {
    ReadyBox& ready = kind_of(*shape).ready;
    if (ready.box && ready.box->alive()) result = std::exchange(ready, {});
    refill(*shape);
  }
  if (result.box) {
    ++hits_;
    co_return result;
  }
  ++misses_;
  result.box = co_await backend_.create(std::move(settings));
  co_return result;
}

// The shelf of that kind, now the first one. The last one makes room for a new kind; what is on it
// ends with it.
BoxPool::Kind& BoxPool::kind_of(const model::BoxSettings& shape) {
  const auto found = std::find_if(shelves_.begin(), shelves_.end(),
                                  [&](const Kind& kind) { return kind.shape == shape; });
  if (found != shelves_.end()) {
    shelves_.splice(shelves_.begin(), shelves_, found);
  } else {
    shelves_.push_front({.shape = shape, .ready = {}});
    if (shelves_.size() > kinds_) shelves_.pop_back();
  }
  return shelves_.front();
}

void BoxPool::refill(const model::BoxSettings& shape) {
  Kind& kind = kind_of(shape);
  if (kind.being_made || (kind.ready.box && kind.ready.box->alive())) return;
  kind.being_made = true;
  tasks_.spawn("make a box ahead", make_later(shape));
}

// Whoever took the last one is about to use it, and would share the processors with us.
Task<void> BoxPool::make_later(model::BoxSettings shape) {
  boost::asio::steady_timer patience(executor_, kPatience);
  co_await patience.async_wait(boost::asio::use_awaitable);
  co_await make(std::move(shape));
}

Task<void> BoxPool::make(model::BoxSettings shape) {
  ReadyBox made;
  std::string failure;
  try {
    if (stopping_) co_return;
    model::BoxSettings settings = shape;
    made.box = co_await backend_.create(std::move(settings));
    ShellSettings waiting{.workdir = shape.mount_path, .env = {}};
    made.shell = co_await WaitingShell::start(*made.box, std::move(waiting));
  } catch (const Error& error) {
    failure = error.what();
  }
  const auto found = std::find_if(shelves_.begin(), shelves_.end(),
                                  [&](const Kind& kind) { return kind.shape == shape; });
  if (found != shelves_.end()) found->being_made = false;
  if (!failure.empty()) {
    // Whoever asks for such a box next gets the error itself.
    log::debug("no box could be made ahead", "error", failure);
  } else if (found != shelves_.end() && !stopping_) {
    found->ready = std::move(made);
  }
}

Task<void> BoxPool::stop() {
  stopping_ = true;
  co_await tasks_.finish();
  for (Kind& kind : shelves_) {
    kind.ready.shell = {};
    if (kind.ready.box) co_await kind.ready.box->destroy(std::chrono::milliseconds(0));
  }
  shelves_.clear();
}

std::size_t BoxPool::ready() const {
  return static_cast<std::size_t>(
      std::count_if(shelves_.begin(), shelves_.end(),
                    [](const Kind& kind) { return kind.ready.box != nullptr; }));
}

}  // namespace caisson::session
