#include "backend/native/resources.h"

#include <fcntl.h>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/json.hpp>
#include <chrono>
#include <csignal>
#include <utility>

#include "async/sleep.h"
#include "backend/native/process_time.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/str.h"

namespace caisson::backend::native {

namespace asio = boost::asio;
namespace json = boost::json;
using Time = std::chrono::microseconds;

NativeResources::NativeResources(asio::any_io_executor executor, std::string name,
                                 Slots::Lease slot, std::optional<BoxCgroup> cgroup,
                                 std::shared_ptr<PendingCgroups> pending_cgroups,
                                 std::shared_ptr<LiveMounts> mounts)
    : executor_(std::move(executor)),
      name_(std::move(name)),
      slot_(std::move(slot)),
      cgroup_(std::move(cgroup)),
      pending_(std::move(pending_cgroups)),
      mounts_(std::move(mounts)) {}

NativeResources::~NativeResources() {
  if (guest_.running()) {
    guest_.kill(SIGKILL);
    guest_.wait();
  }
  if (cgroup_ && !cgroup_->try_remove()) pending_->push_back(std::move(*cgroup_));
}

std::uint64_t NativeResources::oom_kills() {
  return cgroup_ ? cgroup_->oom_kills() : 0;
}

std::vector<UniqueFd> NativeResources::make_group(std::uint64_t id, std::uint64_t memory_bytes) {
  if (cgroup_) return cgroup_->make_group(id, memory_bytes);
  if (memory_bytes > 0) refuse_own_memory();
  return {};
}

std::optional<bool> NativeResources::kill_group(std::uint64_t id) {
  return cgroup_ ? cgroup_->kill_group(id) : std::nullopt;
}

void NativeResources::remove_group(std::uint64_t id) {
  if (cgroup_) cgroup_->remove_group(id);
}

std::uint64_t NativeResources::retain_groups(const std::set<std::uint64_t>& ids) {
  return cgroup_ ? cgroup_->retain_groups(ids) : 0;
}

BoxUsage NativeResources::usage() {
  const CgroupUsage used = cgroup_ ? cgroup_->usage() : CgroupUsage{};
  const auto counted = [this] { return guest_.running() ? time_below(guest_.pid()) : Time{0}; };
  return {.memory_bytes = used.memory_bytes,
          .peak_memory_bytes = used.peak_memory_bytes,
          .processes = used.processes,
          .cpu_time = used.cpu_time ? *used.cpu_time : counted(),
          .oom_kills = oom_kills()};
}

LiveMounts::Target NativeResources::target() const {
  if (!guest_.running()) throw Error(ErrorCode::box_lost, "the box has ended");
  const int place = mount_namespace_ ? mount_namespace_.get() : guest_.pidfd();
  return {.name = name_,
          .place = std::make_shared<const UniqueFd>(duplicate(place, "a box")),
          .slot = slot_};
}

Task<void> NativeResources::show(model::BoxSettings settings, model::MountSpec mount) {
  return mounts_->show(target(), std::move(settings), std::move(mount));
}

Task<void> NativeResources::hide(model::MountSpec mount) {
  return mounts_->hide(target(), std::move(mount));
}

// The end of process 1 ends its pid namespace, and with it every process of the box. Payloads are
// also killed by their cgroup, so that none goes on for a moment while the namespace is taken
// apart.
void NativeResources::kill() {
  if (!guest_.running()) return;
  guest_.kill(SIGKILL);
  if (cgroup_) cgroup_->kill_at_once();
}

void NativeResources::end(std::string reason) {
  end_reason_ = std::move(reason);
  kill();
}

std::optional<Handover> NativeResources::handover() const {
  if (!guest_.running()) return std::nullopt;
  const json::object description{{"name", name_},
                                 {"has_cgroup", cgroup_.has_value()},
                                 {"slot", slot_->index},
                                 {"pid", guest_.pid()}};
  Handover handover{.description = json::serialize(description), .fds = {guest_.pidfd()}};
  if (mount_namespace_) handover.fds.push_back(mount_namespace_.get());
  return handover;
}

void NativeResources::abandon() {
  guest_.let_go();
  if (cgroup_) cgroup_->abandon();
}

NativeDescription read_description(const std::string& description) {
  try {
    const json::value value = json::parse(description);
    const json::object& object = value.as_object();
    return {.name = std::string(object.at("name").as_string()),
            .has_cgroup = object.at("has_cgroup").as_bool(),
            .slot = object.at("slot").to_number<unsigned>(),
            .pid = object.at("pid").to_number<pid_t>()};
  } catch (const std::exception& error) {
    throw Error(ErrorCode::protocol_error,
                str("the description of a box cannot be read: ", error.what()));
  }
}

Task<void> NativeResources::release() {
  if (guest_.running()) {
    // A pidfd becomes readable when the process has ended; the kernel has then reaped its
    // namespace.
    asio::posix::stream_descriptor ended(executor_, duplicate(guest_.pidfd(), "pidfd").release());
    co_await ended.async_wait(asio::posix::stream_descriptor::wait_read, asio::use_awaitable);
    guest_.wait();
  }
  mount_namespace_.reset();
  if (mounts_) co_await mounts_->remove_copies(name_);
  if (!cgroup_) co_return;
  // The last processes leave their cgroups a moment after they are seen to have ended.
  const Deadline deadline = Clock::now() + std::chrono::seconds(5);
  auto pause = std::chrono::microseconds(200);
  while (!cgroup_->try_remove()) {
    if (Clock::now() > deadline) {
      log::warning("cgroups of a box are still busy; the next start removes them");
      co_return;
    }
    co_await sleep_for(pause);
    pause = std::min<std::chrono::microseconds>(pause * 2, std::chrono::milliseconds(20));
  }
}

}  // namespace caisson::backend::native
