// What sessions that exist are shown of the host.
#include <utility>

#include "base/error.h"
#include "base/str.h"
#include "base/text.h"
#include "session/compare.h"
#include "session/registry.h"

namespace caisson::session {

Task<void> Registry::follow(const Session::Use& session, std::vector<model::MountSpec> mounts,
                            bool at_once) {
  if (mount_changes(session->box_settings().extra_mounts, mounts).empty()) co_return;
  std::exception_ptr failure;
  try {
    co_await session->follow(std::move(mounts), at_once);
  } catch (...) {
    failure = std::current_exception();
  }
  keep(*session);
  if (store_ != nullptr && session->box_settings().persistent) co_await note(*session);
  if (failure) std::rethrow_exception(failure);
}

Task<SessionView> Registry::change_mounts(std::string id, ChangeMounts change) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) throw_not_found(id);
  const EntryPtr entry = found->second;
  std::optional<Turns::Turn> turn = co_await entry->operations.take();
  const Forget forget{*this, id, turn};
  co_await wait_for_return(entry);
  if (!entry->session || !entry->session->alive()) throw_not_found(id);
  const std::shared_ptr<Session> session = entry->session;
  {
    const Session::Use use(session);
    std::vector<model::MountSpec> mounts = session->box_settings().extra_mounts;
    change(mounts);
    co_await follow(use, std::move(mounts), true);
  }
  co_return view_of(*session);
}

Task<SessionView> Registry::show_mount(std::string id, model::MountSpec mount) {
  auto add = [mount = std::move(mount), id](std::vector<model::MountSpec>& mounts) {
    for (const model::MountSpec& other : mounts) {
      if (other.mount_path != mount.mount_path || other == mount) continue;
      throw Error(ErrorCode::session_conflict,
                  str("session ", printable(id), " shows ", printable(other.host_path), " at ",
                      printable(mount.mount_path), ": remove that first"));
    }
    mounts.push_back(mount);
  };
  return change_mounts(std::move(id), std::move(add));
}

Task<SessionView> Registry::hide_mount(std::string id, std::string mount_path) {
  auto remove = [mount_path = std::move(mount_path), id](std::vector<model::MountSpec>& mounts) {
    const auto gone = [&](const model::MountSpec& mount) { return mount.mount_path == mount_path; };
    if (std::erase_if(mounts, gone) > 0) return;
    throw Error(ErrorCode::not_found,
                str("session ", printable(id), " shows nothing at ", printable(mount_path)));
  };
  return change_mounts(std::move(id), std::move(remove));
}

}  // namespace caisson::session
