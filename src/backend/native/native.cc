#include "backend/native/native.h"

#include <sys/eventfd.h>

#include <utility>

#include "async/loop_records.h"
#include "async/sleep.h"
#include "backend/guest_box.h"
#include "backend/native/layers.h"
#include "backend/native/native_impl.h"
#include "backend/native/seccomp.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/str.h"
#include "base/text.h"

namespace caisson::backend::native {

namespace asio = boost::asio;
using model::Layer;

Native::Impl::Impl(asio::any_io_executor executor_in, Options options_in)
    : executor(std::move(executor_in)),
      options(std::move(options_in)),
      images(options.state_dir),
      tools(options.state_dir),
      host(inspect_host()),
      inherited(read_inheritance(std::exchange(options.inherited, {}))),
      inherits(inherited.owner.lock.valid()),
      cgroup_host(inspect_cgroups()),
      group_host(limiting_only(cgroup_host)),
      owner(runtime_directory(), std::move(inherited.owner),
            [this](unsigned number) { return claim_groups(number); }),
      templates(executor, host, images, tools),
      slots(std::make_shared<Slots>(owner.number(), host.privileged)),
      filter(filter_bytes(build_filter())),
      watches(executor),
      stop_fetching(check_syscall("eventfd", ::eventfd(0, EFD_CLOEXEC))) {
  settle();
  mounts = std::make_shared<LiveMounts>(LiveMounts::Context{
      .executor = executor,
      .privileged = host.privileged,
      .translate = !options.withhold.contains(Layer::workspace_owner),
      .may_be_untranslated = options.allow_missing.contains(Layer::workspace_owner),
      .copies = options.state_dir / "artifacts",
      .empty = runtime_directory() / "empty",
      .rules_of = [this](const model::BoxSettings& settings) { return mount_rules(settings); },
      .workers = [this]() -> asio::thread_pool& { return workers(); }});
}

model::IsolationReport Native::Impl::expect(const model::BoxSettings& settings,
                                            const std::optional<NetworkProbe>& probed) {
  LayerFacts facts{.host = host,
                   .limits = cgroups->reports(),
                   .network = std::nullopt,
                   .withhold = options.withhold};
  if (settings.network == model::NetworkMode::on)
    facts.network = probed ? *probed : Network::probe();
  return expected_layers(facts, settings);
}

// Each box has a channel that the loop watches for as long as it lives.
void Native::Impl::expect_box() {
  constexpr std::size_t kAtOnce = 64;
  if (boxes.size() < loop_records) return;
  make_loop_records(executor, kAtOnce);
  loop_records += kAtOnce;
}

// Those that are gone are forgotten from time to time, not with every new one.
void Native::Impl::note(Living box) {
  if (boxes.size() >= most_boxes) {
    std::erase_if(boxes, [](const Living& known) { return known.channel.expired(); });
    most_boxes = 2 * boxes.size() + 16;
  }
  boxes.push_back(std::move(box));
  watch_kernel_memory();
}

boost::asio::thread_pool& Native::Impl::workers() {
  constexpr std::size_t kThreads = 2;
  if (!pool) pool.emplace(kThreads);
  return *pool;
}

CgroupLimits Native::Impl::limits_of(const model::BoxSettings& settings) const {
  CgroupLimits limits;
  const auto& withheld = options.withhold;
  if (!withheld.contains(Layer::memory_limit)) {
    limits.memory_bytes = static_cast<std::uint64_t>(settings.memory_mb) << 20;
  }
  if (!withheld.contains(Layer::pids_limit)) {
    limits.pids = static_cast<std::uint64_t>(settings.pids_limit);
  }
  if (!withheld.contains(Layer::cpu_limit)) limits.cpus = settings.cpus;
  return limits;
}

void Native::Impl::abandon() {
  end_fetching();
  watches.cancel();
  for (const Living& box : std::exchange(boxes, {})) {
    if (const auto resources = box.resources.lock()) resources->abandon();
  }
  for (const auto& resources : std::exchange(dying, {})) resources->abandon();
  templates.stop();
  mounts->stop();
  cgroups->abandon();
  owner.abandon();
  if (pool) pool->join();
}

Task<BackendStatus> Native::Impl::status() {
  BackendStatus result;
  model::BoxSettings settings;
  std::set<Layer> optional;
  for (const Layer layer : model::all_layers()) {
    if (can_be_missing(layer)) optional.insert(layer);
  }
  result.isolation = expect(settings);
  std::unique_ptr<Box> box;
  try {
    box = co_await create(std::move(settings), std::move(optional));
    result.isolation = box->isolation();
    require_layers(result.isolation, options.allow_missing);
    result.available = true;
  } catch (const Error& error) {
    result.reason = error.what();
  }
  if (box) co_await box->destroy(std::chrono::milliseconds(0));
  co_return result;
}

Task<void> Native::Impl::stop() {
  end_fetching();
  co_await watches.stop();
  for (const Living& box : std::exchange(boxes, {})) {
    const auto channel = box.channel.lock();
    const auto resources = box.resources.lock();
    if (!channel || !resources) continue;
    resources->kill();
    channel->close();
    co_await resources->release();
  }
  co_await drain_pending();
  for (const auto& resources : std::exchange(dying, {})) {
    log::warning("a box does not end; the next start removes its groups");
    resources->abandon();
  }
  templates.stop();
  mounts->stop();
  // The owner before us may have had one.
  if (!network && network_claim) network.emplace(network_claim->number());
  if (network) network->remove();
  if (!cgroups->remove()) log::warning("boxes were still there when their backend stopped");
  if (dead_are_left) sweep();
  if (pool) pool->join();
}

void Native::Impl::remove_pending() {
  std::erase_if(dying, [](const auto& resources) { return resources->ended(); });
  std::erase_if(*pending_cgroups, [](BoxCgroup& cgroup) { return cgroup.try_remove(); });
}

Task<void> Native::Impl::drain_pending() {
  const Deadline deadline = Clock::now() + std::chrono::seconds(5);
  for (remove_pending(); !(pending_cgroups->empty() && dying.empty()) && Clock::now() < deadline;
       remove_pending()) {
    co_await sleep_for(std::chrono::milliseconds(1));
  }
}

Native::Native(asio::any_io_executor executor, Options options)
    : impl_(std::make_shared<Impl>(std::move(executor), std::move(options))) {}

Native::~Native() = default;

Task<BackendStatus> Native::status() {
  return impl_->status();
}

Task<std::unique_ptr<Box>> Native::create(model::BoxSettings settings) {
  return impl_->create(std::move(settings), impl_->options.allow_missing);
}

Task<std::unique_ptr<Box>> Native::adopt(model::BoxSettings settings, std::string description,
                                         std::vector<UniqueFd> fds) {
  return impl_->adopt(std::move(settings), std::move(description), std::move(fds));
}

Task<std::string> Native::provide(std::string image, std::string program) {
  return impl_->provide(std::move(image), std::move(program));
}

void Native::abandon() {
  impl_->abandon();
}

std::string_view Native::name() const {
  return impl_->options.name;
}

void Native::set_mount_rules(MountRulesOf rules) {
  impl_->mount_rules_of = std::move(rules);
}

Task<void> Native::begin_adoption(std::vector<std::string> descriptions) {
  return impl_->begin_adoption(std::move(descriptions));
}

Task<void> Native::stop() {
  return impl_->stop();
}

}  // namespace caisson::backend::native
