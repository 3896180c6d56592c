// How a box is made.
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <utility>

#include "async/blocking.h"
#include "backend/guest_box.h"
#include "backend/native/box_mounts.h"
#include "backend/native/layers.h"
#include "backend/native/native_impl.h"
#include "base/error.h"
#include "base/str.h"

namespace caisson::backend::native {

namespace asio = boost::asio;
using model::Layer;

namespace {

constexpr auto kSetupDeadline = std::chrono::seconds(30);
constexpr int kAttempts = 4;  // at a box, when processes that make it are killed

// Mounts of an ordinary user are bound by the launcher, in the namespace it made for that.
void bind_later(const std::vector<WantedMount>& wanted, BoxRequest& request) {
  for (const WantedMount& mount : wanted) {
    request.mounts.push_back({.target = mount.target,
                              .fd = wire::kNoFd,
                              .host_path = mount.source.resolved,
                              .read_only = mount.mode != model::MountMode::rw,
                              .device = mount.source.device,
                              .inode = mount.source.inode});
  }
}

}  // namespace

LateGuest::LateGuest(const std::shared_ptr<GuestChannel>& channel,
                     const asio::any_io_executor& executor)
    : timer_(std::make_shared<asio::steady_timer>(executor)) {
  constexpr int kPatience = 3;  // with a guest that never stops talking
  wait(timer_, channel, kPatience);
}

void LateGuest::wait(const Timer& timer, std::weak_ptr<GuestChannel> channel, int patience) {
  timer->expires_after(kSetupDeadline);
  timer->async_wait([weak = std::weak_ptr(timer), channel = std::move(channel),
                     patience](const boost::system::error_code& error) {
    const Timer again = weak.lock();
    const std::shared_ptr<GuestChannel> late = channel.lock();
    if (error || !again || !late) return;
    if (late->has_unread() && patience > 0) {
      wait(again, channel, patience - 1);
    } else {
      late->close();
    }
  });
}

model::MountRules Native::Impl::mount_rules(const model::BoxSettings& settings) const {
  model::MountRules rules;
  if (mount_rules_of) {
    rules = mount_rules_of(settings);
  } else {
    rules.roots = options.mount_roots;
  }
  rules.protected_paths.push_back(options.state_dir.native());
  rules.protected_paths.push_back(runtime_directory().native());
  return rules;
}

// A file system that cannot translate owners lacks a layer: it is refused or, accepted, reported.
void Native::Impl::judge_translation(const std::string& problem, model::IsolationReport& report,
                                     const std::set<Layer>& accepted) const {
  if (problem.empty()) return;
  for (model::LayerReport& entry : report.layers) {
    if (entry.layer != Layer::workspace_owner) continue;
    entry = missing(Layer::workspace_owner,
                    str("the file system cannot translate owners (", problem, ")"),
                    "mount it from a file system with idmapped mounts (ext4, xfs, btrfs, tmpfs)");
  }
  require_layers(report, accepted);
}

std::optional<BoxCgroup> Native::Impl::make_cgroup(const model::BoxSettings& settings,
                                                   const std::string& name) {
  const auto make = [&]() -> std::optional<BoxCgroup> {
    BoxCgroup cgroup = cgroups->create(name, limits_of(settings));
    if (cgroup.empty()) return std::nullopt;
    return cgroup;
  };
  try {
    return make();
  } catch (const SystemError& error) {
    if (error.error_number() != ENOENT || !renew_groups()) throw;
  }
  return make();
}

void Native::Impl::describe_cgroup(const NativeResources& resources, BoxRequest& request,
                                   PassedFds& passed) const {
  if (!resources.cgroup()) return;
  for (UniqueFd& entry : resources.cgroup()->open_entries()) {
    request.enter_cgroups.push_back(passed.keep(std::move(entry)));
  }
  for (const int fd : cgroups->home_fds()) {
    request.leave_cgroups.push_back(passed.borrow(fd));
  }
  if (options.withhold.contains(Layer::cgroup_namespace)) return;
  const std::set<Layer>& enforced = resources.cgroup()->enforced();
  if (enforced.contains(Layer::memory_limit)) request.cgroup_controllers.emplace_back("memory");
  if (enforced.contains(Layer::pids_limit)) request.cgroup_controllers.emplace_back("pids");
  if (enforced.contains(Layer::cpu_limit)) request.cgroup_controllers.emplace_back("cpu");
}

// A launcher that dies takes no box with it, and another is as good: its death is no reason to
// fail. Neither is that of a process that waited to become this box.
Task<std::unique_ptr<Box>> Native::Impl::create(model::BoxSettings settings,
                                                std::set<Layer> accepted) {
  for (int attempt = 1;; ++attempt) {
    const bool last = attempt == kAttempts;
    try {
      co_return co_await create_once(settings, accepted);
    } catch (const SystemError& error) {
      if (last) throw setup_failure(error);
    } catch (const Error& error) {
      const bool died =
          error.code() == ErrorCode::backend_unavailable || error.code() == ErrorCode::box_lost;
      if (last || !died) throw;
    }
  }
}

Task<std::unique_ptr<Box>> Native::Impl::create_once(model::BoxSettings settings,
                                                     std::set<Layer> accepted) {
  const std::shared_ptr<Impl> self = shared_from_this();
  remove_pending();
  sweep_again();
  expect_box();
  model::IsolationReport report = expect(settings);
  require_layers(report, accepted);
  std::vector<WantedMount> wanted =
      open_mounts(settings, mount_rules(settings), runtime_directory() / "empty");
  const std::shared_ptr<Template> root = co_await templates.get(settings.image);
  const std::shared_ptr<LauncherClient> launcher = root->launcher;
  const Slots::Lease slot = co_await slots->take(launcher);

  PassedFds passed;
  BoxRequest request;
  request.image = root->image;
  request.read_only_root = settings.read_only_rootfs;
  request.network = settings.network == model::NetworkMode::on;
  request.workspace_path = settings.mount_path;
  request.scratch_bytes = scratch_bytes(settings.memory_mb);
  request.scratch_inodes = scratch_inodes(request.scratch_bytes);
  request.ids = slot->ids;
  request.cgroup_namespace = !options.withhold.contains(Layer::cgroup_namespace);
  request.mask_proc = !options.withhold.contains(Layer::proc_masks);
  request.own_inodes = !options.withhold.contains(Layer::own_inodes);
  request.may_share_inodes = accepted.contains(Layer::own_inodes);
  if (!options.withhold.contains(Layer::seccomp)) request.filter = filter;
  request.user_namespace = passed.borrow(slot->user_namespace.get());
  if (host.privileged) {
    const bool translate = !options.withhold.contains(Layer::workspace_owner);
    const std::string problem =
        co_await prepare_mounts(std::move(wanted), translate, request, passed, slot, launcher);
    judge_translation(problem, report, accepted);
    co_await prepare_root(request, passed, slot, launcher);
  } else {
    bind_later(wanted, request);
  }

  const std::string name = str("box-", next_box++);
  const auto resources = std::make_shared<NativeResources>(
      executor, name, slot, make_cgroup(settings, name), pending_cgroups, mounts);
  describe_cgroup(*resources, request, passed);
  BoxPlan plan = plan_box(host, request);
  const GuestBox::Identity identity{plan.finish.guest.payload_uid, plan.finish.guest.payload_gid};

  std::shared_ptr<GuestChannel> channel;
  std::exception_ptr failure;
  try {
    LauncherClient::LaunchedProcess launched =
        co_await launcher->launch(std::move(plan.launch), options.keep_spares);
    resources->adopt(std::move(launched.process));
    const Parcel rest = pack(std::move(plan.finish), passed.fds());
    send_packet(launched.control.get(), rest.data, rest.fds);
    channel = std::make_shared<GuestChannel>(executor, std::move(launched.control));
    const std::vector<wire::ProofResult> proofs = co_await set_up(channel, resources);
    require_proofs(proofs, accepted);
    report_left_out(proofs, report);
  } catch (const SystemError& error) {
    const bool died = error.error_number() == EPIPE || error.error_number() == ECONNRESET;
    failure = std::make_exception_ptr(
        died ? Error(ErrorCode::box_lost, "the process of the box was killed while it was made")
             : setup_failure(error));
  } catch (...) {
    failure = std::current_exception();
  }
  if (failure) {
    resources->kill();
    if (channel) channel->close();
    co_await resources->release();
    std::rethrow_exception(failure);
  }
  note({channel, resources});
  co_return std::make_unique<GuestBox>(str("native-", owner.number(), "-", name), channel, identity,
                                       std::move(report), resources);
}

// The conversation with the new process until it is a guest that tells what it proved of its box.
Task<std::vector<wire::ProofResult>> Native::Impl::set_up(
    std::shared_ptr<GuestChannel> channel, std::shared_ptr<NativeResources> resources) {
  const LateGuest late(channel, executor);
  for (;;) {
    Packet packet = co_await channel->receive();
    const wire::GuestMessage message = wire::decode_guest_message(packet.data);
    if (const auto* ready = std::get_if<wire::Ready>(&message)) {
      if (ready->version != wire::kGuestProtocolVersion) {
        throw Error(ErrorCode::protocol_error, "the guest speaks another version of the protocol");
      }
      co_return ready->proofs;
    }
    if (const auto* failed = std::get_if<wire::SetupFailed>(&message)) {
      throw SystemError(failed->step, failed->error_number);
    }
    if (std::holds_alternative<wire::MountsHandover>(message) && packet.fds.size() == 1) {
      resources->keep_mount_namespace(std::move(packet.fds[0]));
      continue;
    }
    if (!std::holds_alternative<wire::NetworkHandover>(message) || packet.fds.size() != 2) {
      throw Error(ErrorCode::protocol_error, "the guest spoke out of turn while it was set up");
    }
    co_await connect_network(std::move(packet));
    wire::OwnerMessage done = wire::NetworkReady{};
    co_await channel->send(std::move(done), {});
  }
}

Task<void> Native::Impl::connect_network(Packet packet) {
  if (!network) open_network();
  auto attach = [this, netns = packet.fds[0].get(), netlink = packet.fds[1].get()] {
    return network->attach(netns, netlink);
  };
  co_await run_blocking(workers(), std::move(attach));
}

}  // namespace caisson::backend::native
