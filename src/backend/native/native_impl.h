#pragma once
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "async/event.h"
#include "async/task_group.h"
#include "backend/guest_channel.h"
#include "backend/native/cgroup.h"
#include "backend/native/host.h"
#include "backend/native/image_store.h"
#include "backend/native/live_mounts.h"
#include "backend/native/mount_source.h"
#include "backend/native/native.h"
#include "backend/native/network.h"
#include "backend/native/network_claim.h"
#include "backend/native/owner.h"
#include "backend/native/passed_fds.h"
#include "backend/native/plan.h"
#include "backend/native/resources.h"
#include "backend/native/slots.h"
#include "backend/native/templates.h"
#include "backend/native/tools.h"

namespace caisson::backend::native {

// What an owner leaves to the next one, besides its boxes: whatever says that it lives.
struct Inheritance {
  Owner::Left owner;             // no lock: there was none before us
  std::vector<UniqueFd> groups;  // its locked directories, as far as it had locks on them
  std::optional<NetworkClaim> network;
};

// How one box is made is in native_create.cc, how one is taken over in native_adopt.cc, what an
// owner is on this host in native_owner.cc, the rest in native.cc.
struct Native::Impl : std::enable_shared_from_this<Native::Impl> {
  Impl(boost::asio::any_io_executor executor_in, Options options_in);

  Task<BackendStatus> status();
  Task<std::unique_ptr<Box>> create(model::BoxSettings settings, std::set<model::Layer> accepted);
  Task<std::unique_ptr<Box>> adopt(model::BoxSettings settings, std::string description,
                                   std::vector<UniqueFd> fds);
  Task<void> begin_adoption(std::vector<std::string> descriptions);
  Task<std::string> provide(std::string image, std::string program);
  Task<void> fetch_tools();
  void end_fetching() const;
  void abandon();
  Task<void> stop();

  // For as long as there are boxes; called when there is a new one.
  void watch_kernel_memory();
  static Task<void> watch_until_idle(std::weak_ptr<Impl> backend);
  Task<bool> end_hoarders();  // false: look again soon

  bool claim_groups(unsigned number);
  void settle();
  void sweep();
  void sweep_again();
  void tell_keeper();
  bool renew_groups();
  void open_network();
  void skip_name(const std::string& name);
  void remove_pending();
  Task<void> drain_pending();

  // What this host can do for such a box; its network is asked unless that is known.
  model::IsolationReport expect(const model::BoxSettings& settings,
                                const std::optional<NetworkProbe>& probed = std::nullopt);
  boost::asio::thread_pool& workers();
  model::MountRules mount_rules(const model::BoxSettings& settings) const;
  CgroupLimits limits_of(const model::BoxSettings& settings) const;
  std::optional<BoxCgroup> make_cgroup(const model::BoxSettings& settings, const std::string& name);
  void judge_translation(const std::string& problem, model::IsolationReport& report,
                         const std::set<model::Layer>& accepted) const;
  void describe_cgroup(const NativeResources& resources, BoxRequest& request,
                       PassedFds& passed) const;
  Task<std::unique_ptr<Box>> create_once(model::BoxSettings settings,
                                         std::set<model::Layer> accepted);
  Task<std::optional<BoxCgroup>> find_cgroup(std::string name, CgroupLimits limits,
                                             std::set<std::uint64_t> groups);
  Task<std::vector<wire::ProofResult>> set_up(std::shared_ptr<GuestChannel> channel,
                                              std::shared_ptr<NativeResources> resources);
  Task<void> connect_network(Packet packet);

  // Of a box that its holder may have destroyed meanwhile.
  struct Living {
    std::weak_ptr<GuestChannel> channel;
    std::weak_ptr<NativeResources> resources;
  };
  void expect_box();
  void note(Living box);

  // A box that adopt() will be called for.
  struct Announced {
    Slots::Lease slot;
    std::set<std::uint64_t> groups;  // that lie beside its own
  };

  boost::asio::any_io_executor executor;
  Options options;
  MountRulesOf mount_rules_of;  // empty: the roots of the options
  ImageStore images;
  Tools tools;
  Host host;
  Inheritance inherited;
  const bool inherits;  // the number, and boxes, of an owner before us
  const CgroupHost cgroup_host;
  const CgroupHost group_host;         // of it, where groups for boxes are made
  std::optional<CgroupClaim> claimed;  // until the owner settles in them
  Owner owner;
  Templates templates;
  std::shared_ptr<Slots> slots;
  std::string filter;
  std::optional<CgroupOwner> cgroups;
  std::optional<NetworkClaim> network_claim;
  std::optional<Network> network;
  std::optional<boost::asio::thread_pool> pool;
  std::vector<Living> boxes;
  TaskGroup watches;
  std::size_t most_boxes = 16;  // until the list is gone through
  std::size_t loop_records = 0;
  std::map<std::string, Announced> announced;
  std::optional<NetworkProbe> inherited_network;        // as boxes that were taken over have it
  std::vector<std::shared_ptr<NativeResources>> dying;  // not taken over, and killed
  std::shared_ptr<PendingCgroups> pending_cgroups = std::make_shared<PendingCgroups>();
  std::shared_ptr<LiveMounts> mounts;
  std::shared_ptr<Event> fetching;  // of the tools, while it goes on
  std::string fetch_problem;        // of the last time
  Deadline next_fetch{};
  UniqueFd stop_fetching;
  std::uint64_t next_box = 1;
  bool dead_are_left = false;  // something of dead owners could not be removed yet
  Deadline next_sweep;
};

CgroupHost limiting_only(CgroupHost host);
Inheritance read_inheritance(KeptEntry entry);

// Ends a conversation in which the guest is silent for too long, while it lives. What the guest has
// said and nobody has read yet is not its silence: this process may have stood still.
class LateGuest {
 public:
  LateGuest(const std::shared_ptr<GuestChannel>& channel,
            const boost::asio::any_io_executor& executor);
  LateGuest(const LateGuest&) = delete;
  LateGuest& operator=(const LateGuest&) = delete;
  ~LateGuest() { timer_->cancel(); }

 private:
  using Timer = std::shared_ptr<boost::asio::steady_timer>;
  static void wait(const Timer& timer, std::weak_ptr<GuestChannel> channel, int patience);

  Timer timer_;
};

}  // namespace caisson::backend::native
