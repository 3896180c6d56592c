#include "backend/fake/mounts.h"

#include <fcntl.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "backend/artifact_tree.h"
#include "base/error.h"
#include "base/file.h"
#include "base/path.h"
#include "base/str.h"
#include "model/mount_rules.h"

namespace caisson::backend::fake {
namespace {

[[noreturn]] void refuse(const std::string& host_path, std::string_view cause) {
  throw Error(ErrorCode::mount_refused,
              str("host path ", host_path, " may not be mounted: ", cause));
}

// The path with every symbolic link resolved; a tail that does not exist yet stays as it is.
std::string resolve(const std::string& host_path) {
  if (host_path.empty() || host_path.front() != '/') refuse(host_path, "it is not absolute");
  std::error_code error;
  const std::filesystem::path resolved = std::filesystem::weakly_canonical(host_path, error);
  if (error) refuse(host_path, error.message());
  return normalise_path(resolved.native());
}

UniqueFd open_source(const std::string& host_path, model::MountMode mode) {
  const std::string resolved = resolve(host_path);
  if (const std::string why = model::mount_refusal(resolved, mode, {}); !why.empty())
    refuse(host_path, why);
  if (mode == model::MountMode::none) return UniqueFd();
  std::error_code error;
  if (mode == model::MountMode::rw) std::filesystem::create_directories(resolved, error);
  if (error) refuse(host_path, str("it cannot be created: ", error.message()));
  UniqueFd root(::open(resolved.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!root) refuse(host_path, error_text(errno));
  return root;
}

}  // namespace

std::vector<Mount> open_mounts(const model::BoxSettings& settings) {
  std::vector<model::MountSpec> wanted = settings.extra_mounts;
  if (settings.host_path) {
    wanted.insert(wanted.begin(),
                  {*settings.host_path, settings.mount_path, settings.host_path_mode});
  }
  std::vector<Mount> mounts;
  for (const model::MountSpec& mount : wanted) {
    if (mount.is_artifact()) continue;
    UniqueFd root = open_source(mount.host_path, mount.mode);
    if (!root) continue;
    mounts.push_back(
        {normalise_path(mount.mount_path), std::move(root), mount.mode == model::MountMode::rw});
  }
  const auto longer = [](const Mount& a, const Mount& b) { return a.path.size() > b.path.size(); };
  std::ranges::stable_sort(mounts, longer);
  return mounts;
}

Mount open_artifact(const model::MountSpec& mount, const std::filesystem::path& copies) {
  const UniqueFd tree = open_source(mount.host_path, model::MountMode::ro);
  const UniqueFd manifest = open_file(*mount.manifest_path, O_PATH);
  return {mount.mount_path,
          copy_artifact(tree.get(), manifest.get(), *mount.content_digest, copies), false};
}

}  // namespace caisson::backend::fake
