#include "backend/native/native.h"

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <optional>
#include <utility>

#include "async/blocking.h"
#include "backend/guest_box.h"
#include "backend/native/box_mounts.h"
#include "backend/native/cgroup.h"
#include "backend/native/host.h"
#include "backend/native/image_store.h"
#include "backend/native/layers.h"
#include "backend/native/network.h"
#include "backend/native/owner.h"
#include "backend/native/plan.h"
#include "backend/native/resources.h"
#include "backend/native/seccomp.h"
#include "backend/native/slots.h"
#include "backend/native/templates.h"
#include "backend/native/travellers.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/exhaustion.h"
#include "base/log.h"
#include "base/str.h"
#include "base/text.h"

namespace caisson::backend::native {

namespace asio = boost::asio;
using model::Layer;

namespace {

constexpr auto kSetupDeadline = std::chrono::seconds(30);
constexpr int kAttempts = 4;  // at a box, when processes that make it are killed

// A box joins every hierarchy that its owner is in, and each costs an exec some time. One without a
// controller that limits (a hybrid host's unified hierarchy) is not worth it: process 1 ends the
// box.
CgroupHost limiting_only(CgroupHost host) {
  std::erase_if(host.hierarchies, [](const CgroupHierarchy& hierarchy) {
    return !hierarchy.controllers.contains(Controller::memory) &&
           !hierarchy.controllers.contains(Controller::pids) &&
           !hierarchy.controllers.contains(Controller::cpu);
  });
  return host;
}

Error with_subject(const model::BoxSpec& spec, const SystemError& error) {
  return {
      is_exhaustion(error.error_number()) ? ErrorCode::busy : ErrorCode::isolation_unavailable,
      str("box for session ", printable(spec.session_id), " could not be made: ", error.what())};
}

}  // namespace

struct Native::Impl : std::enable_shared_from_this<Native::Impl> {
  Impl(asio::any_io_executor executor_in, Options options_in)
      : executor(std::move(executor_in)),
        options(std::move(options_in)),
        images(options.state_dir),
        host(inspect_host()),
        inherits(options.inherited_lock.valid()),
        owner(runtime_directory(), std::move(options.inherited_lock)),
        templates(executor, host, images),
        slots(std::make_shared<Slots>(owner.number(), host.privileged)),
        filter(filter_bytes(build_filter())) {
    CgroupHost cgroup_host = inspect_cgroups();
    sweep(cgroup_host);
    const std::string owner_name = str(owner.number());
    cgroups.emplace(limiting_only(std::move(cgroup_host)), owner_name);
    if (options.keeper != nullptr) {
      // Boxes outlive us: nobody is to clean up when we die, except the owner after us.
      const auto keep = [this] { options.keeper->keep(kKeptName, "", {owner.lock()}); };
      keep();
      options.keeper->on_loss(keep);
      return;
    }
    const std::span<const int> directories = cgroups->directory_fds();
    std::vector<int> given(directories.begin(), directories.end());
    given.push_back(owner.lock());
    templates.set_cgroups(
        std::vector<std::string>(directories.size(), str(kOwnerPrefix, owner_name)),
        std::move(given));
  }

  // Removes what dead owners left behind, while their numbers cannot be taken. Our own number had
  // owners before us, too.
  void sweep(const CgroupHost& cgroup_host) {
    std::set<unsigned> found;
    CgroupOwner::sweep(cgroup_host, [&found](std::string_view name) {
      const auto number = parse_integer(name);
      if (number && *number >= 0 && *number < Owner::kMaxOwners) {
        found.insert(static_cast<unsigned>(*number));
      }
      return true;  // only looking
    });
    const auto clean = [&](unsigned dead) {
      const std::set<std::string> busy =
          CgroupOwner::sweep(cgroup_host, [&](std::string_view name) { return name != str(dead); });
      if (host.privileged) Network::sweep([&](unsigned number) { return number != dead; });
      return busy.empty();
    };
    const bool dirty = found.contains(owner.number()) || owner.follows_a_dead_one();
    if (dirty && !inherits) clean(owner.number());
    owner.with_dead_owners(clean, found);
  }

  model::IsolationReport expect(const model::BoxSpec& spec) {
    LayerFacts facts{.host = host,
                     .limits = cgroups->reports(),
                     .network = std::nullopt,
                     .withhold = options.withhold};
    if (spec.network == model::NetworkMode::on) facts.network = Network::probe();
    return expected_layers(facts, spec);
  }

  MountRules mount_rules() const {
    return {.protected_paths = {options.state_dir.native(), runtime_directory().native()},
            .roots = options.mount_roots};
  }

  // Mounts of an ordinary user are bound by the launcher, in the namespace it made for that.
  static void bind_later(const std::vector<WantedMount>& wanted, BoxRequest& request) {
    for (const WantedMount& mount : wanted) {
      request.mounts.push_back({.target = mount.target,
                                .fd = wire::kNoFd,
                                .host_path = mount.source.resolved,
                                .read_only = mount.mode != model::MountMode::rw,
                                .device = mount.source.device,
                                .inode = mount.source.inode});
    }
  }

  // A file system that cannot translate owners lacks a layer: it is refused or, accepted, reported.
  void judge_translation(const std::string& problem, model::IsolationReport& report,
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

  CgroupLimits limits_of(const model::BoxSpec& spec) const {
    CgroupLimits limits;
    const auto& withheld = options.withhold;
    if (!withheld.contains(Layer::memory_limit)) {
      limits.memory_bytes = static_cast<std::uint64_t>(spec.memory_mb) << 20;
    }
    if (!withheld.contains(Layer::pids_limit)) {
      limits.pids = static_cast<std::uint64_t>(spec.pids_limit);
    }
    if (!withheld.contains(Layer::cpu_limit)) limits.cpus = spec.cpus;
    return limits;
  }

  std::optional<BoxCgroup> make_cgroup(const model::BoxSpec& spec, const std::string& name) const {
    BoxCgroup cgroup = cgroups->create(name, limits_of(spec));
    if (cgroup.join_fds().empty()) return std::nullopt;
    return cgroup;
  }

  void describe_cgroup(const NativeResources& resources, BoxRequest& request,
                       Travellers& travellers) const {
    if (!resources.cgroup()) return;
    for (const int fd : resources.cgroup()->join_fds()) {
      request.enter_cgroups.push_back(travellers.borrow(fd));
    }
    for (const int fd : cgroups->home_fds()) {
      request.leave_cgroups.push_back(travellers.borrow(fd));
    }
    if (options.withhold.contains(Layer::cgroup_namespace)) return;
    const std::set<Layer>& enforced = resources.cgroup()->enforced();
    if (enforced.contains(Layer::memory_limit)) request.cgroup_controllers.emplace_back("memory");
    if (enforced.contains(Layer::pids_limit)) request.cgroup_controllers.emplace_back("pids");
    if (enforced.contains(Layer::cpu_limit)) request.cgroup_controllers.emplace_back("cpu");
  }

  // A launcher that dies takes no box with it, and another is as good: its death is no reason to
  // fail. Neither is that of a process that waited to become this box.
  Task<std::unique_ptr<Box>> create(model::BoxSpec spec, std::set<Layer> accepted) {
    for (int attempt = 1;; ++attempt) {
      const bool last = attempt == kAttempts;
      try {
        co_return co_await create_once(spec, accepted);
      } catch (const SystemError& error) {
        if (last) throw with_subject(spec, error);
      } catch (const Error& error) {
        const bool died =
            error.code() == ErrorCode::backend_unavailable || error.code() == ErrorCode::box_lost;
        if (last || !died) throw;
      }
    }
  }

  Task<std::unique_ptr<Box>> create_once(model::BoxSpec spec, std::set<Layer> accepted) {
    const std::shared_ptr<Impl> self = shared_from_this();
    bury();
    model::IsolationReport report = expect(spec);
    require_layers(report, accepted);
    std::vector<WantedMount> wanted = open_mounts(spec, mount_rules());
    const std::shared_ptr<Template> root = co_await templates.get(spec.image);
    const std::shared_ptr<LauncherClient> launcher = root->launcher;
    const Slots::Lease slot = co_await slots->take(launcher);

    Travellers travellers;
    BoxRequest request;
    request.image = root->image;
    request.read_only_root = spec.read_only_rootfs;
    request.network = spec.network == model::NetworkMode::on;
    request.workspace_path = spec.mount_path;
    request.scratch_bytes = scratch_bytes(spec.memory_mb);
    request.scratch_inodes = scratch_inodes(request.scratch_bytes);
    request.ids = slot->ids;
    request.cgroup_namespace = !options.withhold.contains(Layer::cgroup_namespace);
    request.mask_proc = !options.withhold.contains(Layer::proc_masks);
    if (!options.withhold.contains(Layer::seccomp)) request.filter = filter;
    request.user_namespace = travellers.borrow(slot->user_namespace.get());
    if (host.privileged) {
      const bool translate = !options.withhold.contains(Layer::workspace_owner);
      const std::string problem = co_await prepare_mounts(std::move(wanted), translate, request,
                                                          travellers, slot, launcher);
      judge_translation(problem, report, accepted);
      co_await prepare_root(request, travellers, slot, launcher);
    } else {
      bind_later(wanted, request);
    }

    const std::string name = str("box-", next_box++);
    const auto resources =
        std::make_shared<NativeResources>(executor, name, slot, make_cgroup(spec, name), graveyard);
    describe_cgroup(*resources, request, travellers);
    BoxPlan plan = plan_box(host, request);
    const GuestBox::Identity identity{plan.finish.guest.payload_uid, plan.finish.guest.payload_gid};

    std::shared_ptr<GuestChannel> channel;
    std::exception_ptr failure;
    try {
      LauncherClient::Newborn newborn =
          co_await launcher->launch(std::move(plan.launch), options.keep_spares);
      resources->adopt(std::move(newborn.process));
      const Parcel rest = pack(std::move(plan.finish), travellers.fds());
      send_packet(newborn.control.get(), rest.data, rest.fds);
      channel = std::make_shared<GuestChannel>(executor, std::move(newborn.control));
      co_await set_up(*channel);
    } catch (const SystemError& error) {
      const bool died = error.error_number() == EPIPE || error.error_number() == ECONNRESET;
      failure = std::make_exception_ptr(
          died ? Error(ErrorCode::box_lost, "the process of the box was killed while it was made")
               : with_subject(spec, error));
    } catch (...) {
      failure = std::current_exception();
    }
    if (failure) {
      resources->kill();
      if (channel) channel->close();
      co_await resources->release();
      std::rethrow_exception(failure);
    }
    std::erase_if(boxes, [](const Living& box) { return box.channel.expired(); });
    boxes.push_back({channel, resources});
    co_return std::make_unique<GuestBox>(str("native-", owner.number(), "-", name), channel,
                                         identity, std::move(report), resources);
  }

  Task<std::unique_ptr<Box>> adopt(model::BoxSpec spec, std::string description,
                                   std::vector<UniqueFd> fds) {
    const std::shared_ptr<Impl> self = shared_from_this();
    const NativeDescription told = read_description(description);
    if (fds.size() != 2) {
      throw Error(ErrorCode::protocol_error, "a box was handed over without its descriptors");
    }
    std::optional<BoxCgroup> cgroup;
    if (told.has_cgroup) cgroup.emplace(cgroups->adopt(told.name, limits_of(spec)));
    const auto resources = std::make_shared<NativeResources>(
        executor, told.name, slots->reserve(told.slot), std::move(cgroup), graveyard);
    resources->adopt(ChildProcess(told.pid, std::move(fds[1])));
    const auto channel = std::make_shared<GuestChannel>(executor, std::move(fds[0]));
    adopted.insert(told.name);
    skip_name(told.name);
    asio::steady_timer deadline(executor, kSetupDeadline);
    deadline.async_wait([weak = channel->weak_from_this()](const boost::system::error_code& error) {
      if (const auto late = weak.lock(); late && !error) late->close();
    });
    const wire::Processes processes = co_await channel->resume();
    boxes.push_back({channel, resources});
    const GuestBox::Identity identity{kPayloadId, kPayloadId};
    co_return std::make_unique<GuestBox>(str("native-", owner.number(), "-", told.name), channel,
                                         identity, expect(spec), resources, processes);
  }

  // Names are not used twice while anything may carry them.
  void skip_name(const std::string& name) {
    const auto number = parse_integer(name.substr(name.rfind('-') + 1));
    if (number) next_box = std::max(next_box, static_cast<std::uint64_t>(*number) + 1);
  }

  // Groups of boxes that had no owner's word yet when it died, or no guest any more.
  void finish_adoption() {
    for (const std::string& name : cgroups->remove_all_but(adopted)) skip_name(name);
    adopted.clear();
  }

  void abandon() {
    for (const Living& box : std::exchange(boxes, {})) {
      if (const auto resources = box.resources.lock()) resources->abandon();
    }
    templates.stop();
    cgroups->abandon();
    owner.abandon();
    if (pool) pool->join();
  }

  // The conversation with the new process until it is a guest that has proven its box.
  Task<void> set_up(GuestChannel& channel) {
    asio::steady_timer deadline(executor, kSetupDeadline);
    deadline.async_wait([weak = channel.weak_from_this()](const boost::system::error_code& error) {
      if (const auto late = weak.lock(); late && !error) late->close();
    });
    for (;;) {
      Packet packet = co_await channel.receive();
      const wire::GuestMessage message = wire::decode_guest_message(packet.data);
      if (const auto* ready = std::get_if<wire::Ready>(&message)) {
        if (ready->version != wire::kGuestProtocolVersion) {
          throw Error(ErrorCode::protocol_error,
                      "the guest speaks another version of the protocol");
        }
        require_proofs(ready->proofs);
        co_return;
      }
      if (const auto* failed = std::get_if<wire::SetupFailed>(&message)) {
        throw SystemError(failed->step, failed->error_number);
      }
      if (!std::holds_alternative<wire::NetworkHandover>(message) || packet.fds.size() != 2) {
        throw Error(ErrorCode::protocol_error, "the guest spoke out of turn while it was set up");
      }
      co_await connect_network(std::move(packet));
      wire::OwnerMessage done = wire::NetworkReady{};
      co_await channel.send(std::move(done), {});
    }
  }

  Task<void> connect_network(Packet packet) {
    if (!network) network.emplace(owner.number());
    if (!pool) pool.emplace(1);
    auto attach = [this, netns = packet.fds[0].get(), netlink = packet.fds[1].get()] {
      return network->attach(netns, netlink);
    };
    co_await run_blocking(*pool, std::move(attach));
  }

  Task<BackendStatus> status() {
    BackendStatus result;
    model::BoxSpec spec;
    spec.session_id = "status";
    std::set<Layer> optional;
    for (const Layer layer : model::all_layers()) {
      if (can_be_missing(layer)) optional.insert(layer);
    }
    result.isolation = expect(spec);
    std::unique_ptr<Box> box;
    try {
      box = co_await create(std::move(spec), std::move(optional));
      result.isolation = box->isolation();
      require_layers(result.isolation, options.allow_missing);
      result.available = true;
    } catch (const Error& error) {
      result.reason = error.what();
    }
    if (box) co_await box->destroy(std::chrono::milliseconds(0));
    co_return result;
  }

  Task<void> stop() {
    for (const Living& box : std::exchange(boxes, {})) {
      const auto channel = box.channel.lock();
      const auto resources = box.resources.lock();
      if (!channel || !resources) continue;
      resources->kill();
      channel->close();
      co_await resources->release();
    }
    co_await clear_graveyard();
    templates.stop();
    // The owner before us may have had one.
    if (!network && inherits && host.privileged) network.emplace(owner.number());
    if (network) network->remove();
    if (!cgroups->remove()) log::warning("boxes were still there when their backend stopped");
    if (pool) pool->join();
  }

  void bury() {
    std::erase_if(*graveyard, [](BoxCgroup& cgroup) { return cgroup.try_remove(); });
  }

  Task<void> clear_graveyard() {
    const Deadline deadline = Clock::now() + std::chrono::seconds(5);
    for (bury(); !graveyard->empty() && Clock::now() < deadline; bury()) {
      asio::steady_timer pause(executor, std::chrono::milliseconds(1));
      co_await pause.async_wait(asio::use_awaitable);
    }
  }

  // Of a box that its holder may have destroyed meanwhile.
  struct Living {
    std::weak_ptr<GuestChannel> channel;
    std::weak_ptr<NativeResources> resources;
  };

  asio::any_io_executor executor;
  Options options;
  ImageStore images;
  Host host;
  const bool inherits;  // the number, and boxes, of an owner before us
  Owner owner;
  Templates templates;
  std::shared_ptr<Slots> slots;
  std::string filter;
  std::optional<CgroupOwner> cgroups;
  std::optional<Network> network;
  std::optional<asio::thread_pool> pool;
  std::vector<Living> boxes;
  std::shared_ptr<Graveyard> graveyard = std::make_shared<Graveyard>();
  std::uint64_t next_box = 1;
  std::set<std::string> adopted;  // names of cgroups, while boxes are taken over
};

Native::Native(asio::any_io_executor executor, Options options)
    : impl_(std::make_shared<Impl>(std::move(executor), std::move(options))) {}

Native::~Native() = default;

Task<BackendStatus> Native::status() {
  return impl_->status();
}

Task<std::unique_ptr<Box>> Native::create(model::BoxSpec spec) {
  return impl_->create(std::move(spec), impl_->options.allow_missing);
}

Task<std::unique_ptr<Box>> Native::adopt(model::BoxSpec spec, std::string description,
                                         std::vector<UniqueFd> fds) {
  return impl_->adopt(std::move(spec), std::move(description), std::move(fds));
}

void Native::abandon() {
  impl_->abandon();
}

std::string_view Native::name() const {
  return impl_->options.name;
}

void Native::set_mount_roots(std::vector<std::string> roots) {
  impl_->options.mount_roots = std::move(roots);
}

void Native::finish_adoption() {
  impl_->finish_adoption();
}

Task<void> Native::stop() {
  return impl_->stop();
}

}  // namespace caisson::backend::native
