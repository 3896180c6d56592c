#pragma once
#include <boost/asio/any_io_executor.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "backend/box.h"
#include "backend/guest_channel.h"

namespace caisson::backend {

// What a backend holds for a box besides the conversation with its guest.
class BoxResources {
 public:
  virtual ~BoxResources() = default;
  virtual std::uint64_t oom_kills() = 0;
  // A group of processes in the box, by the id of the first: the files to enter it by, in this
  // order; none where the host has no such groups. Throws isolation_unavailable when the memory
  // limit, if one is given, cannot be put in force.
  virtual std::vector<UniqueFd> make_group(std::uint64_t id, std::uint64_t memory_bytes) = 0;
  // SIGKILL to all of it. Nothing when there is no such group; false when some may have escaped.
  virtual std::optional<bool> kill_group(std::uint64_t id) = 0;
  virtual void remove_group(std::uint64_t id) = 0;
  // Ends and removes all groups but these; an owner that died may have left some. Gives the highest
  // id among those that are there then, 0 without any.
  virtual std::uint64_t retain_groups(const std::set<std::uint64_t>& ids) = 0;
  virtual BoxUsage usage() = 0;
  // As of Box.
  virtual Task<void> show(model::BoxSettings settings, model::MountSpec mount) = 0;
  virtual Task<void> hide(model::MountSpec mount) = 0;
  // Ends every process of the box, the guest included, without waiting.
  virtual void kill() = 0;
  // Why the backend itself ended the box; empty when it did not.
  virtual std::string end_reason() const { return {}; }
  // Waits for the end of all of them and gives everything back to the host.
  virtual Task<void> release() = 0;
  // For the next owner, besides the guest's socket; and not to end anything from now on.
  virtual std::optional<Handover> handover() const = 0;
  virtual void abandon() = 0;
};

// A box whose process 1 is our guest: everything that happens inside it, written once for every
// backend that can start the guest and hand over its socket.
class GuestBox final : public Box {
 public:
  // The ids payloads run as, inside the box.
  struct Identity {
    std::uint32_t uid = 0;
    std::uint32_t gid = 0;
  };

  GuestBox(std::string id, std::shared_ptr<GuestChannel> channel, Identity identity,
           model::IsolationReport isolation, std::shared_ptr<BoxResources> resources);
  // One that another owner made, and what its guest told: see GuestChannel::resume().
  GuestBox(std::string id, std::shared_ptr<GuestChannel> channel, Identity identity,
           model::IsolationReport isolation, std::shared_ptr<BoxResources> resources,
           const wire::Processes& processes);
  ~GuestBox() override;

  const std::string& id() const override { return id_; }
  const model::IsolationReport& isolation() const override { return isolation_; }
  bool alive() const override { return channel_->open(); }
  Task<std::unique_ptr<Process>> start(ProcessSpec spec, Stdio stdio) override;
  Task<BoxUsage> usage() override;
  Task<void> show(model::BoxSettings settings, model::MountSpec mount) override;
  Task<void> hide(model::MountSpec mount) override;
  std::optional<Handover> handover() const override;
  std::unique_ptr<Process> find_process(std::uint64_t id) override;
  void end_unclaimed() override;
  Task<void> destroy(std::chrono::milliseconds grace) override;

 private:
  struct Unlistened {};
  GuestBox(Unlistened, std::string id, std::shared_ptr<GuestChannel> channel, Identity identity,
           model::IsolationReport isolation, std::shared_ptr<BoxResources> resources);

  std::string id_;
  std::shared_ptr<GuestChannel> channel_;
  Identity identity_;
  model::IsolationReport isolation_;
  std::shared_ptr<BoxResources> resources_;  // null once released
  std::uint64_t next_id_ = 1;
  std::map<std::uint64_t, std::shared_ptr<GuestProcessState>> found_;  // of the owner before us
};

}  // namespace caisson::backend
