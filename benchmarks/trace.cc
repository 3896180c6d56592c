#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "backend/guest_box.h"
#include "backend/native/cgroup.h"
#include "backend/native/host.h"
#include "backend/native/image_store.h"
#include "backend/native/layers.h"
#include "backend/native/owner.h"
#include "backend/native/plan.h"
#include "backend/native/resources.h"
#include "backend/native/seccomp.h"
#include "backend/native/slots.h"
#include "backend/native/templates.h"
#include "base/error.h"
#include "base/str.h"
#include "boxes.h"
#include "measurements.h"
#include "turns.h"

namespace caisson::benchmarks {

namespace {

using namespace backend::native;

// The phases in the order in which they were first met.
class Stopwatch {
 public:
  void start() { last_ = Clock::now(); }
  // What went on since start() or the last call was this phase.
  void lap(const std::string& phase) {
    const Clock::time_point now = Clock::now();
    const double took = std::chrono::duration<double, std::milli>(now - last_).count();
    if (counts) samples_of(phase).add(took);
    last_ = Clock::now();
  }
  std::vector<Phase> phases() const {
    std::vector<Phase> result;
    for (const Entry& entry : entries_) result.push_back({entry.name, entry.samples.summary()});
    return result;
  }

  bool counts = false;

 private:
  struct Entry {
    std::string name;
    Samples samples;
  };
  Samples& samples_of(const std::string& phase) {
    for (Entry& entry : entries_) {
      if (entry.name == phase) return entry.samples;
    }
    return entries_.emplace_back(Entry{phase, {}}).samples;
  }

  std::deque<Entry> entries_;
  Clock::time_point last_;
};

// The parts of a native backend, so that each can be timed by itself. A box is made of them in the
// order in which the backend makes its own; the note on the whole shows whether that still holds.
class Workshop {
 public:
  Workshop(boost::asio::any_io_executor executor, const std::filesystem::path& state_dir)
      : executor_(std::move(executor)),
        images_(state_dir),
        tools_(state_dir),
        host_(inspect_host()),
        owner_(runtime_directory()),
        templates_(executor_, host_, images_, tools_),
        slots_(std::make_shared<Slots>(owner_.number(), host_.privileged)),
        filter_(filter_bytes(build_filter())),
        cgroups_(inspect_cgroups(), str(owner_.number())) {}

  void stop() { templates_.stop(); }

  Task<void> make_use_and_destroy(Stopwatch& watch) {
    watch.start();
    const std::shared_ptr<Template> root = co_await templates_.get("");
    const Slots::Lease slot = co_await slots_->take(root->launcher);
    watch.lap("slot: template, ids, user namespace");
    const auto resources = std::make_shared<NativeResources>(
        executor_, "trace", slot, make_cgroup(), std::make_shared<PendingCgroups>(), nullptr);
    watch.lap("cgroup: directories, limits read back");
    std::vector<int> fds;
    BoxPlan box_plan = plan(*root, *slot, *resources, fds);
    const backend::GuestBox::Identity identity{box_plan.finish.guest.payload_uid,
                                               box_plan.finish.guest.payload_gid};
    watch.lap("plan: mounts and lockdown as data");
    LauncherClient::LaunchedProcess launched =
        co_await root->launcher->launch(std::move(box_plan.launch), /*keep_spare=*/true);
    resources->adopt(std::move(launched.process));
    watch.lap("launch: a process with its namespaces, ready since the last box");
    const Parcel rest = pack(std::move(box_plan.finish), std::move(fds));
    send_packet(launched.control.get(), rest.data, rest.fds);
    const auto channel =
        std::make_shared<backend::GuestChannel>(executor_, std::move(launched.control));
    co_await wait_until_ready(*channel);
    watch.lap("ready: cgroups entered, scratch, lockdown, proofs");

    model::IsolationReport layers;
    backend::GuestBox box("trace", channel, identity, std::move(layers), resources);
    backend::RunRequest request = trivial_request();
    require_success(co_await backend::run(box, std::move(request)));
    watch.lap("exec: `sh -c true`, output captured");
    resources->kill();
    channel->close();
    watch.lap("destroy: kill");
    co_await box.destroy(std::chrono::milliseconds(0));
    watch.lap("destroy: end of process 1, cgroups removed");
  }

 private:
  std::optional<BoxCgroup> make_cgroup() {
    const model::BoxSettings spec = plain_spec();
    CgroupLimits limits;
    limits.memory_bytes = static_cast<std::uint64_t>(spec.memory_mb) << 20;
    limits.pids = static_cast<std::uint64_t>(spec.pids_limit);
    limits.cpus = spec.cpus;
    BoxCgroup cgroup = cgroups_.create(str("trace-", next_++), limits);
    if (cgroup.empty()) return std::nullopt;
    return cgroup;
  }

  BoxPlan plan(const Template& root, const Slot& slot, const NativeResources& resources,
               std::vector<int>& fds) {
    const auto travel = [&](int fd) {
      fds.push_back(fd);
      return static_cast<wire::FdIndex>(fds.size() - 1);
    };
    BoxRequest request;
    request.image = root.image;
    request.scratch_bytes = scratch_bytes(plain_spec().memory_mb);
    request.scratch_inodes = scratch_inodes(request.scratch_bytes);
    request.ids = slot.ids;
    request.filter = filter_;
    request.user_namespace = travel(slot.user_namespace.get());
    if (resources.cgroup()) {
      entries_ = resources.cgroup()->open_entries();
      for (const UniqueFd& entry : entries_) request.enter_cgroups.push_back(travel(entry.get()));
      for (const int fd : cgroups_.home_fds()) request.leave_cgroups.push_back(travel(fd));
      const std::set<model::Layer>& enforced = resources.cgroup()->enforced();
      using model::Layer;
      if (enforced.contains(Layer::memory_limit)) request.cgroup_controllers.emplace_back("memory");
      if (enforced.contains(Layer::pids_limit)) request.cgroup_controllers.emplace_back("pids");
      if (enforced.contains(Layer::cpu_limit)) request.cgroup_controllers.emplace_back("cpu");
    }
    return plan_box(host_, request);
  }

  static Task<void> wait_until_ready(backend::GuestChannel& channel) {
    const Packet packet = co_await channel.receive();
    const wire::GuestMessage message = wire::decode_guest_message(packet.data);
    if (const auto* failed = std::get_if<wire::SetupFailed>(&message)) {
      throw SystemError(failed->step, failed->error_number);
    }
    const auto* ready = std::get_if<wire::Ready>(&message);
    if (ready == nullptr) throw Error(ErrorCode::protocol_error, "the guest is not ready");
    require_proofs(ready->proofs, {});
  }

  boost::asio::any_io_executor executor_;
  ImageStore images_;
  Tools tools_;
  Host host_;
  Owner owner_;
  Templates templates_;
  std::shared_ptr<Slots> slots_;
  std::string filter_;
  CgroupOwner cgroups_;
  unsigned next_ = 1;
  std::vector<UniqueFd> entries_;  // of the box that is being made
};

}  // namespace

void trace_lifecycle(const Options& options, Report& report) {
  TemporaryDirectory state;
  Loop loop;
  Workshop workshop(loop.executor(), state.path());
  Stopwatch watch;
  Boxes boxes;
  Samples whole;
  std::vector<Contender> contenders;
  contenders.push_back({[&](bool counts) {
    watch.counts = counts;
    loop.await(workshop.make_use_and_destroy(watch));
  }});
  contenders.push_back({[&](bool counts) {
    const double took = milliseconds_of([&] {
      const std::unique_ptr<backend::Box> box = boxes.create();
      boxes.run_trivial_command(*box);
      boxes.destroy(*box);
    });
    if (counts) whole.add(took);
  }});
  take_turns("trace", contenders, options.quick ? 5 : 300);
  workshop.stop();

  report.phases = watch.phases();
  report.figures.push_back({.measurement = "trace",
                            .name = "create + first exec + destroy, by the backend itself",
                            .ours = whole.summary()});
  report.note(
      "phases are timed by the owner, which waits: what the launcher, the guest and the kernel do "
      "meanwhile is part of them; their sum is the figure of the backend itself unless the two "
      "have come apart");
}

}  // namespace caisson::benchmarks
