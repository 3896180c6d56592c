#include "backend/native/box_mounts.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <utility>

#include "backend/native/identity.h"
#include "backend/native/mount_point.h"
#include "base/beneath.h"
#include "base/error.h"
#include "base/file.h"
#include "base/str.h"
#include "base/text.h"

namespace caisson::backend::native {

namespace {

// A mount inside another mount needs its directory there, on the host.
void make_nested_mount_points(const std::vector<WantedMount>& wanted) {
  for (const WantedMount& inner : wanted) {
    const WantedMount* outer = nullptr;
    for (const WantedMount& candidate : wanted) {
      if (&candidate == &inner || !inner.target.starts_with(candidate.target + "/")) continue;
      if (outer == nullptr || candidate.target.size() > outer->target.size()) outer = &candidate;
    }
    if (outer == nullptr || outer->mode != model::MountMode::rw) continue;
    make_mount_point(outer->source, inner.target.substr(outer->target.size() + 1),
                     inner.source.is_directory);
  }
}

MountSource open_empty(const std::filesystem::path& empty) {
  MountSource source;
  source.place = make_directories(empty.native());
  source.resolved = empty.native();
  struct stat info {};
  check_syscall(source.resolved, ::fstat(source.place.get(), &info));
  source.device = info.st_dev;
  source.inode = info.st_ino;
  return source;
}

// Made now if it is missing, because the box may live to see it made. Where the daemon cannot make
// it, no workspace will have anything in it.
bool is_to_be_covered(const std::string& hidden) {
  if (!open_absolute(hidden.substr(0, hidden.rfind('/')), O_PATH | O_DIRECTORY)) return false;
  try {
    make_directories(hidden);
    return true;
  } catch (const SystemError& error) {
    const UniqueFd found = open_absolute(hidden, O_PATH);
    if (!found && errno == ENOENT) return false;
    throw Error(ErrorCode::mount_refused,
                str(error.what(),
                    ": it is where workspaces have their directories and cannot be "
                    "hidden; remove it"));
  }
}

void cover_hidden(std::vector<WantedMount>& wanted, const model::MountRules& rules,
                  const std::filesystem::path& empty) {
  std::vector<WantedMount> covers;
  for (const WantedMount& mount : wanted) {
    for (const std::string& hidden : model::hidden_below(mount.source.resolved, rules)) {
      if (!is_to_be_covered(hidden)) continue;
      covers.push_back({.source = open_empty(empty),
                        .target = mount.target + hidden.substr(mount.source.resolved.size()),
                        .mode = model::MountMode::ro,
                        .translated = false});
    }
  }
  for (WantedMount& cover : covers) wanted.push_back(std::move(cover));
}

}  // namespace

std::vector<WantedMount> open_mounts(const model::BoxSettings& settings,
                                     const model::MountRules& rules,
                                     const std::filesystem::path& empty) {
  std::vector<WantedMount> wanted;
  const auto add = [&](const std::string& path, const std::string& target, model::MountMode mode) {
    if (mode == model::MountMode::none) return;
    if (const std::string why = target_refusal(target); !why.empty()) {
      throw Error(ErrorCode::mount_refused,
                  str("nothing can be mounted at ", printable(target), ": ", why));
    }
    wanted.push_back(
        {.source = open_mount_source(path, mode, rules), .target = target, .mode = mode});
  };
  if (settings.host_path) add(*settings.host_path, settings.mount_path, settings.host_path_mode);
  for (const model::MountSpec& mount : settings.extra_mounts) {
    if (mount.is_artifact()) continue;  // shown when the box lives
    add(mount.host_path, mount.mount_path, mount.mode);
  }
  cover_hidden(wanted, rules, empty);
  make_nested_mount_points(wanted);
  return wanted;
}

Task<std::string> prepare_mounts(std::vector<WantedMount> wanted, bool translate,
                                 BoxRequest& request, PassedFds& passed, Slots::Lease slot,
                                 std::shared_ptr<LauncherClient> launcher) {
  std::string problem;
  for (const WantedMount& mount : wanted) {
    int map = -1;
    if (translate && mount.translated) {
      map = co_await Slots::workspace_map(slot, launcher, mount.source.owner, mount.source.group);
    }
    UniqueFd prepared;
    try {
      prepared = detached_mount(mount.source, mount.mode, map);
    } catch (const SystemError& error) {
      if (map < 0) throw;
      problem = error.what();
      prepared = detached_mount(mount.source, mount.mode, -1);
    }
    BoxMount entry{.target = mount.target, .fd = passed.keep(std::move(prepared))};
    request.mounts.push_back(std::move(entry));
  }
  co_return problem;
}

Task<void> prepare_root(BoxRequest& request, PassedFds& passed, Slots::Lease slot,
                        std::shared_ptr<LauncherClient> launcher) {
  const bool on_shared_tree = request.read_only_root && request.image.is_host();
  if (shares_root(request) || on_shared_tree) co_return;
  MountSource source;
  source.resolved = request.image.is_host() ? "/usr" : request.image.rootfs;
  source.place = open_file(source.resolved, O_PATH | O_DIRECTORY);
  UniqueFd owners;
  int map = -1;
  if (request.read_only_root) {
    wire::CreateUserNamespace maps{.uids = file_owners_map(), .gids = file_owners_map()};
    owners = co_await launcher->create_user_namespace(std::move(maps));
    map = owners.get();
  } else {
    map = co_await Slots::workspace_map(slot, launcher, 0, 0);
  }
  request.root_lower = passed.keep(detached_mount(source, model::MountMode::ro, map));
}

}  // namespace caisson::backend::native
