#pragma once
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "async/task.h"
#include "backend/native/identity.h"
#include "backend/native/launcher_client.h"
#include "base/unique_fd.h"

namespace caisson::backend::native {

// The ids of one box and the user namespaces that map them. Some are kept when their box is gone:
// making a user namespace costs more than a box should, and one whose processes are all dead is as
// good as new.
struct Slot {
  unsigned index = 0;
  BoxIds ids;
  UniqueFd user_namespace;
  std::map<std::pair<std::uint32_t, std::uint32_t>, UniqueFd>
      workspace_maps;  // by uid and gid on disk
};

// Hands out slots so that no two living boxes share one.
class Slots : public std::enable_shared_from_this<Slots> {
 public:
  // `own_ids`: each box has ids of its own. Otherwise (an ordinary user) all share the user's.
  Slots(unsigned owner, bool own_ids) : owner_(owner), own_ids_(own_ids) {}

  // A slot comes back when the last reference to it goes.
  using Lease = std::shared_ptr<Slot>;
  Task<Lease> take(std::shared_ptr<LauncherClient> launcher);
  // That of a box which another owner made, by its index.
  Lease reserve(unsigned index);

  // The user namespace that translates a workspace of this owner, made when first asked for.
  static Task<int> workspace_map(Lease slot, std::shared_ptr<LauncherClient> launcher,
                                 std::uint32_t uid, std::uint32_t gid);

 private:
  std::unique_ptr<Slot> pick();
  std::unique_ptr<Slot> make(unsigned index) const;
  Lease lease(std::unique_ptr<Slot> slot);
  void take_back(std::unique_ptr<Slot> slot);

  unsigned owner_;
  bool own_ids_;
  unsigned next_ = 0;
  std::vector<std::unique_ptr<Slot>> free_;  // with their namespaces, the last one used last
  std::vector<unsigned> free_indices_;       // of those that have none
};

}  // namespace caisson::backend::native
