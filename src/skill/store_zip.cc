#include <algorithm>

#include "base/beneath.h"
#include "base/error.h"
#include "base/str.h"
#include "model/object_reader.h"
#include "skill/package.h"
#include "skill/staging.h"
#include "skill/storage_error.h"
#include "skill/store.h"

namespace caisson::skill {

std::vector<Skill> Store::preview_zip(std::string_view archive,
                                      const UploadOptions& options) const {
  std::vector<Skill> skills;
  const ArchivePackages found(archive, options, root_);
  for (const ArchivePackage& package : found.packages()) skills.push_back(package.skill);
  return skills;
}

std::vector<Skill> Store::install_zip(std::string_view archive, const UploadOptions& options,
                                      const std::vector<std::string>& source_paths) const try {
  const ArchivePackages found(archive, options, root_);
  const std::vector<ArchivePackage> selected = found.select(source_paths);
  const UniqueFd root = open_root();
  std::vector<std::string> names;
  for (const ArchivePackage& package : selected) {
    const std::string& target = package.skill.package_root;
    if (std::find(names.begin(), names.end(), package.target_name) != names.end()) {
      model::refuse(str("Duplicate target directory selected: ", target));
    }
    if (is_hidden(package.target_name) ||
        stat_beneath(root.get(), package.target_name, Links::refuse)) {
      model::refuse(str("Skill directory already exists: ", target));
    }
    names.push_back(package.target_name);
  }
  Staging staging(root.get(), root_);
  std::vector<Skill> installed;
  for (const ArchivePackage& package : selected) {
    const UniqueFd directory = staging.make_package();
    found.write(package, directory.get());
    installed.push_back(
        load_package(directory.get(), package.skill.package_root, package.skill.entry_file));
  }
  staging.publish(names);
  return installed;
} catch (const SystemError&) {
  rethrow_storage_error("install skills");
}

}  // namespace caisson::skill
