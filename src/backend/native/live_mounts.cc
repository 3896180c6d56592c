#include "backend/native/live_mounts.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "async/blocking.h"
#include "backend/artifact_tree.h"
#include "backend/native/identity.h"
#include "base/directory.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "base/text.h"
#include "model/tree_manifest.h"

namespace caisson::backend::native {

namespace {

std::string holder_of(const model::MountSpec& mount) {
  return mount.is_artifact() ? std::string(model::kArtifactRoot) : std::string();
}

// What a step in the box failed with, for people.
Error change_failure(const std::string& target, const SystemError& error) {
  switch (error.error_number()) {
    case EBUSY:
      return {ErrorCode::session_conflict,
              str("something is mounted at ", printable(target), " already")};
    case ESRCH:
    case EINVAL:
      return {ErrorCode::box_lost, str("the box ended while ", printable(target), " was changed")};
    default:
      return {ErrorCode::session_conflict,
              str("the box has no place for a mount at ", printable(target), " (", error.what(),
                  "): name it when the session is made, or mount it below /workspace")};
  }
}

}  // namespace

std::shared_ptr<LauncherClient> LiveMounts::mounter() {
  if (!mounter_ || !mounter_->alive()) mounter_ = LauncherClient::start(context_.executor);
  return mounter_;
}

// The copy is made by a thread: a skill may have thousands of files.
Task<WantedMount> LiveMounts::verified(Target box, model::MountSpec mount,
                                       model::MountRules rules) {
  using model::MountMode;
  auto tree =
      std::make_shared<MountSource>(open_mount_source(mount.host_path, MountMode::ro, rules));
  auto manifest =
      std::make_shared<MountSource>(open_mount_source(*mount.manifest_path, MountMode::ro, rules));
  if (!tree->is_directory) {
    throw Error(ErrorCode::mount_refused,
                str("host path ", printable(mount.host_path), " is not a directory"));
  }
  const std::filesystem::path copies = context_.copies / box.name;
  auto work = [tree, manifest, digest = *mount.content_digest, copies] {
    return std::make_shared<UniqueFd>(
        copy_artifact(tree->place.get(), manifest->place.get(), digest, copies));
  };
  const std::shared_ptr<UniqueFd> copy = co_await run_blocking(context_.workers(), std::move(work));
  struct stat info {};
  check_syscall(copies.native(), ::fstat(copy->get(), &info));
  WantedMount wanted{
      .source = {.place = std::move(*copy),
                 .resolved = (copies / model::digits_of(*mount.content_digest)).native(),
                 .is_directory = true,
                 .owner = info.st_uid,
                 .group = info.st_gid,
                 .device = info.st_dev,
                 .inode = info.st_ino},
      .target = mount.mount_path,
      .mode = MountMode::ro};
  co_return wanted;
}

// Artifacts show the owners that they have on disk, for which one namespace does for all boxes.
Task<int> LiveMounts::map_for(Target box, const MountSource& source, bool artifact) {
  if (!context_.translate) co_return -1;
  const std::shared_ptr<LauncherClient> launcher = mounter();
  if (!artifact) {
    co_return co_await Slots::workspace_map(box.slot, launcher, source.owner, source.group);
  }
  if (!file_owners_) {
    wire::CreateUserNamespace request{.uids = file_owners_map(), .gids = file_owners_map()};
    file_owners_ = co_await launcher->create_user_namespace(std::move(request));
  }
  co_return file_owners_.get();
}

Task<UniqueFd> LiveMounts::prepare(Target box, const WantedMount& mount, bool artifact) {
  const int map = mount.translated ? co_await map_for(box, mount.source, artifact) : -1;
  try {
    co_return detached_mount(mount.source, mount.mode, map);
  } catch (const SystemError& error) {
    if (map < 0) throw;
    if (!artifact && !context_.may_be_untranslated) {
      throw Error(ErrorCode::isolation_unavailable,
                  str("the file system of ", printable(mount.source.resolved),
                      " cannot translate owners (", error.what(), ")"));
    }
  }
  co_return detached_mount(mount.source, mount.mode, -1);
}

Task<void> LiveMounts::attach(Target box, WantedMount mount, std::string holder) {
  const bool artifact = !holder.empty();
  wire::ShowMount request{.target = mount.target,
                          .holder = std::move(holder),
                          .owner = context_.privileged ? box.slot->ids.payload : 0,
                          .replace = artifact,
                          .source = {}};
  std::vector<int> fds{box.place->get()};
  UniqueFd prepared;
  if (context_.privileged) {
    prepared = co_await prepare(box, mount, artifact);
    fds.push_back(prepared.get());
  } else {
    request.source = mount.source.resolved;
    request.read_only = mount.mode != model::MountMode::rw;
    request.expected_device = mount.source.device;
    request.expected_inode = mount.source.inode;
  }
  wire::LaunchRequest message = std::move(request);
  try {
    co_await mounter()->change_mounts(std::move(message), std::move(fds));
  } catch (const SystemError& error) {
    throw change_failure(mount.target, error);
  }
}

Task<void> LiveMounts::show(Target box, model::BoxSettings settings, model::MountSpec mount) {
  const model::MountRules rules = context_.rules_of(settings);
  if (mount.is_artifact()) {
    WantedMount wanted = co_await verified(box, mount, rules);
    std::exception_ptr failure;
    try {
      co_await attach(box, std::move(wanted), holder_of(mount));
    } catch (...) {
      failure = std::current_exception();
    }
    if (!failure) co_return;
    // Nobody is shown the copy, and a box that ended meanwhile was cleared up before it was there.
    co_await remove_copy(box, mount);
    std::rethrow_exception(failure);
  }
  model::BoxSettings only;
  only.mount_path = settings.mount_path;
  only.extra_mounts.push_back(mount);
  // What covers parts of it comes behind it.
  for (WantedMount& wanted : open_mounts(only, rules, context_.empty)) {
    co_await attach(box, std::move(wanted), {});
  }
}

Task<void> LiveMounts::hide(Target box, model::MountSpec mount) {
  wire::LaunchRequest message =
      wire::HideMount{.target = mount.mount_path, .holder = holder_of(mount)};
  std::vector<int> fds{box.place->get()};
  try {
    co_await mounter()->change_mounts(std::move(message), std::move(fds));
  } catch (const SystemError& error) {
    throw change_failure(mount.mount_path, error);
  }
  if (mount.is_artifact()) co_await remove_copy(box, mount);
}

Task<void> LiveMounts::remove_copy(Target box, model::MountSpec mount) {
  auto work = [copies = context_.copies / box.name, digest = *mount.content_digest] {
    remove_artifact(copies, digest);
  };
  co_await run_blocking(context_.workers(), std::move(work));
}

Task<void> LiveMounts::remove_copies(std::string name) {
  if (::access((context_.copies / name).c_str(), F_OK) < 0) co_return;
  auto work = [this, name] {
    remove_copies_if([&](const std::string& other) { return other == name; });
  };
  co_await run_blocking(context_.workers(), std::move(work));
}

void LiveMounts::remove_copies_if(
    const std::function<bool(const std::string& name)>& is_gone) const {
  const UniqueFd all(::open(context_.copies.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!all) return;
  std::vector<std::string> names;
  for_each_entry(all.get(), context_.copies.native(),
                 [&](const dirent& entry) { names.emplace_back(entry.d_name); });
  for (const std::string& name : names) {
    if (is_gone(name)) remove_tree(all.get(), name);
  }
}

void LiveMounts::stop() {
  if (mounter_) std::exchange(mounter_, nullptr)->stop();
}

}  // namespace caisson::backend::native
