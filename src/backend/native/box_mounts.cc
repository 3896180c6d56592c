#include "backend/native/box_mounts.h"

#include <fcntl.h>

#include <utility>

#include "backend/native/identity.h"
#include "backend/native/mount_point.h"
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

}  // namespace

std::vector<WantedMount> open_mounts(const model::BoxSpec& spec, const model::MountRules& rules) {
  std::vector<WantedMount> wanted;
  const auto add = [&](const std::string& path, const std::string& target, model::MountMode mode) {
    if (mode == model::MountMode::none) return;
    if (const std::string why = target_refusal(target); !why.empty()) {
      throw Error(ErrorCode::mount_refused,
                  str("nothing can be mounted at ", printable(target), ": ", why));
    }
    wanted.push_back({open_mount_source(path, mode, rules), target, mode});
  };
  if (spec.host_path) add(*spec.host_path, spec.mount_path, spec.host_path_mode);
  for (const model::MountSpec& mount : spec.extra_mounts) {
    add(mount.host_path, mount.mount_path, mount.mode);
  }
  make_nested_mount_points(wanted);
  return wanted;
}

Task<std::string> prepare_mounts(std::vector<WantedMount> wanted, bool translate,
                                 BoxRequest& request, Travellers& travellers, Slots::Lease slot,
                                 std::shared_ptr<LauncherClient> launcher) {
  std::string problem;
  for (const WantedMount& mount : wanted) {
    int map = -1;
    if (translate) {
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
    BoxMount entry{.target = mount.target, .fd = travellers.keep(std::move(prepared))};
    request.mounts.push_back(std::move(entry));
  }
  co_return problem;
}

Task<void> prepare_root(BoxRequest& request, Travellers& travellers, Slots::Lease slot,
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
  request.root_lower = travellers.keep(detached_mount(source, model::MountMode::ro, map));
}

}  // namespace caisson::backend::native
