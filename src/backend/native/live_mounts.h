#pragma once
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/thread_pool.hpp>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "async/task.h"
#include "backend/backend.h"
#include "backend/native/box_mounts.h"
#include "backend/native/launcher_client.h"
#include "backend/native/slots.h"
#include "base/unique_fd.h"
#include "model/box_settings.h"
#include "model/mount_rules.h"

namespace caisson::backend::native {

// Changes what boxes that live are shown of the host. A process that never left the host's
// namespaces does it, so that it can join those of any box, whoever launched it.
class LiveMounts {
 public:
  struct Context {
    boost::asio::any_io_executor executor;
    bool privileged = true;
    bool translate = true;             // owners become the payload's
    bool may_be_untranslated = false;  // where a file system cannot
    std::filesystem::path copies;      // of artifacts: a directory for each box
    std::filesystem::path empty;       // covers what a box must not see
    Backend::MountRulesOf rules_of;
    std::function<boost::asio::thread_pool&()> workers;
  };
  explicit LiveMounts(Context context) : context_(std::move(context)) {}

  // A box, which may end at any moment: what is held here names no other one then.
  struct Target {
    std::string name;
    // A pidfd of its guest or, for an ordinary user, its mount namespace.
    std::shared_ptr<const UniqueFd> place;
    Slots::Lease slot;
  };
  // Throw as those of Box.
  Task<void> show(Target box, model::BoxSettings settings, model::MountSpec mount);
  Task<void> hide(Target box, model::MountSpec mount);

  // Of a box that is gone.
  Task<void> remove_copies(std::string name);
  // Of all boxes that are. Blocks.
  void remove_copies_if(const std::function<bool(const std::string& name)>& is_gone) const;

  void stop();

 private:
  std::shared_ptr<LauncherClient> mounter();
  Task<WantedMount> verified(Target box, model::MountSpec mount, model::MountRules rules);
  Task<int> map_for(Target box, const MountSource& source, bool artifact);
  Task<UniqueFd> prepare(Target box, const WantedMount& mount, bool artifact);
  Task<void> attach(Target box, WantedMount mount, std::string holder);
  Task<void> remove_copy(Target box, model::MountSpec mount);

  Context context_;
  std::shared_ptr<LauncherClient> mounter_;
  UniqueFd file_owners_;  // shows the owners of files as they are on disk
};

}  // namespace caisson::backend::native
