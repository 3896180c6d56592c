#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "async/task.h"
#include "backend/box.h"
#include "model/box_settings.h"
#include "model/isolation.h"
#include "model/mount_rules.h"

namespace caisson::backend {

// Whether a backend can make boxes here, and how tight they would be.
struct BackendStatus {
  bool available = false;
  std::string reason;                // why not; empty when available
  model::IsolationReport isolation;  // what a box with default settings would have
};

// What makes boxes. One object a kind; `daemon/` and `cli/` construct them, everything else sees
// this.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;
  virtual Task<BackendStatus> status() = 0;

  // Artifacts among the mounts of the settings are shown by Box::show(), and not here.
  //
  // A box that is ready: every layer its settings ask for has been proven from inside, or the
  // operator allowed its absence and isolation() shows it. Throws isolation_unavailable with the
  // layer's name and the step that fixes it, mount_refused, image_not_found; after a throw nothing
  // is left behind.
  virtual Task<std::unique_ptr<Box>> create(model::BoxSettings settings) = 0;

  // Before the first create() and adopt(): the boxes that adopt() will be called for, by their
  // descriptions. No new box gets what is theirs; what is left of any other box is removed.
  virtual Task<void> begin_adoption(std::vector<std::string> descriptions) = 0;

  // A box that another owner made and handed over, with copies of its descriptors. What ran in it
  // goes on; what was not to outlive its owner is killed. Throws box_lost when it has ended. When
  // the calling coroutine is cancelled, the box goes on without us.
  virtual Task<std::unique_ptr<Box>> adopt(model::BoxSettings settings, std::string description,
                                           std::vector<UniqueFd> fds) = 0;

  // Fetches a program that boxes of this image are to have and that the host lacks, if it is one of
  // those that can be fetched (model/tools.h); boxes that are there already have it then. Says why
  // it could not be had, or that it still takes a while; nothing when there was nothing to do.
  virtual Task<std::string> provide([[maybe_unused]] std::string image,
                                    [[maybe_unused]] std::string program) {
    co_return std::string();
  }

  // Which directories of the host a new box may show, asked for each.
  using MountRulesOf = std::function<model::MountRules(const model::BoxSettings& settings)>;
  virtual void set_mount_rules(MountRulesOf rules) = 0;

  // Lets go of the boxes without ending them: their next owner takes them over. Only what was
  // handed over goes on. Use nothing of the backend afterwards.
  virtual void abandon() = 0;

  // Destroys what is left and releases what the backend holds on the host. Create nothing
  // afterwards.
  virtual Task<void> stop() = 0;
};

}  // namespace caisson::backend
