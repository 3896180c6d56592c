#include <fcntl.h>

#include <algorithm>

#include "base/beneath.h"
#include "base/error.h"
#include "base/file.h"
#include "base/path.h"
#include "base/str.h"
#include "base/text.h"
#include "model/object_reader.h"
#include "skill/discovery.h"
#include "skill/entry_fields.h"
#include "skill/limits.h"
#include "skill/name.h"
#include "skill/new_tree.h"
#include "skill/package.h"
#include "skill/staging.h"
#include "skill/storage_error.h"
#include "skill/store.h"

namespace caisson::skill {

namespace {

// The path from `ancestor` of what is at or below it.
std::optional<std::string> path_from(const std::string& ancestor, const std::string& path) {
  if (!is_within(path, ancestor)) return std::nullopt;
  const std::string rest = path.substr(ancestor == "/" ? 0 : ancestor.size());
  return rest.empty() ? rest : rest.substr(1);
}

// What was asked for, or what the imported package says where nothing was.
EntryText merged(const std::string& name, const boost::json::object& data, const Skill& imported) {
  const auto text = [&](const char* field, const std::string& fallback) {
    const std::string given = field_text(data, field).value_or("");
    return trim(given).empty() ? fallback : given;
  };
  return {.name = name,
          .display_name = text("display_name", imported.display_name),
          .description = text("description", imported.description),
          .instructions = text("instructions", imported.instructions)};
}

// The package in an open directory that was named by a path.
Skill load_named(int package, const std::string& path) {
  const std::optional<std::string> entry_file = find_entry_file(package);
  if (!entry_file) model::refuse(str("No SKILL.md found in ", path));
  return load_package(package, path, *entry_file);
}

}  // namespace

// Resolving the path only finds out which tree is meant. What is opened is opened without following
// any symlink, so that one that is swapped in meanwhile leads nowhere.
Store::Place Store::locate(int root, const std::string& path, std::string_view label) const {
  const auto outside = [&] {
    model::refuse(str(label, " must stay within the Workspace skill root"));
  };
  std::optional<std::string> canonical = canonical_path(path);
  if (!canonical) outside();
  Place place{.path = std::move(*canonical)};
  if (const auto in_store = path_from(root_, place.path)) {
    if (is_hidden(in_store->substr(0, in_store->find('/')))) outside();
    place.in_store = in_store;
    place.directory = open_beneath(root, *in_store, O_RDONLY | O_DIRECTORY, Links::refuse);
    return place;
  }
  for (const std::string& ancestor : imports_.roots) {
    const auto below = path_from(ancestor, place.path);
    if (!below || is_within(place.path, base_)) continue;
    if (const std::string why =
            model::mount_refusal(place.path, model::MountMode::ro, imports_.rules);
        !why.empty()) {
      model::refuse(str(label, " ", printable(place.path), " cannot be read: ", why));
    }
    place.directory = open_absolute(place.path, O_RDONLY | O_DIRECTORY);
    return place;
  }
  outside();
  return place;
}

Skill Store::scan_directory(const std::string& path) const {
  const UniqueFd root = open_root();
  const Place place = locate(root.get(), path, "scan path");
  if (!place.directory) model::refuse(str("Directory does not exist: ", place.path));
  const bool is_root = place.in_store && place.in_store->empty();
  const auto skip = [&](std::string_view name) { return is_root && is_hidden(name); };
  const std::vector<FoundPackage> found = discover(place.directory.get(), kScanDepth, skip);
  if (found.empty()) {
    model::refuse(str("No SKILL.md found in ", place.path,
                      " or its subdirectories (max depth: ", kScanDepth, ")"));
  }
  if (found.size() > 1) {
    std::vector<std::string> paths;
    paths.reserve(found.size());
    for (const FoundPackage& one : found) paths.push_back(join_path(place.path, one.path));
    model::refuse(str("Multiple skill directories found in ", place.path,
                      ". Please choose a more specific path: ", join(paths, ", ")));
  }
  const std::string package_root = join_path(place.path, found.front().path);
  const UniqueFd package = open_beneath(place.directory.get(), found.front().path,
                                        O_RDONLY | O_DIRECTORY, Links::refuse);
  if (!package) model::refuse(str("Directory does not exist: ", package_root));
  return load_package(package.get(), package_root, found.front().entry_file);
}

Skill Store::create(const boost::json::object& data) const try {
  const std::string name = check_name(field_text(data, "name").value_or(""));
  const UniqueFd root = open_root();
  if (find(root.get(), name)) model::refuse(str("Skill with name \"", name, "\" already exists"));
  const std::string package_root(trim(field_text(data, "package_root").value_or("")));
  if (package_root.empty()) return create_in_store(root.get(), name, data);
  const Place place = locate(root.get(), package_root, "package_root");
  if (!place.directory) model::refuse(str("Directory does not exist: ", place.path));
  if (place.in_store) return adopt(root.get(), place, name, data);
  return import(root.get(), place, name, data);
} catch (const SystemError&) {
  rethrow_storage_error("create a skill");
}

bool Store::is_listed(int root, const std::string& path) const {
  const auto skip = [this](std::string_view top_name) { return is_hidden(top_name); };
  const std::vector<FoundPackage> found = discover(root, kListDepth, skip);
  return std::any_of(found.begin(), found.end(),
                     [&](const FoundPackage& package) { return package.path == path; });
}

// A directory that is there already is not the store's own: as a package it would show whatever
// somebody else put into it.
Skill Store::create_in_store(int root, const std::string& name,
                             const boost::json::object& data) const {
  const std::string path = join_path(root_, name);
  const std::string content = build_entry(merged(name, data, {}));
  check_text(content, entry_subject(kEntryFile));
  if (is_hidden(name)) model::refuse(str("Skill directory already exists: ", path));
  Staging staging(root, root_);
  const UniqueFd package = staging.make_package();
  staging.replace_file(package.get(), kEntryFile, content);
  staging.publish({name});
  return load_package(package.get(), path, kEntryFile);
}

Skill Store::adopt(int root, const Place& place, const std::string& name,
                   const boost::json::object& data) const {
  // At the root it would hide every other package.
  if (place.in_store->empty()) {
    model::refuse("package_root must stay within the Workspace skill root");
  }
  const Skill found = load_named(place.directory.get(), place.path);
  if (!is_listed(root, *place.in_store)) {
    model::refuse(str("Failed to create skill \"", name, "\": ", place.path,
                      " is too deep, or in another package"));
  }
  write_entry(root, place.directory.get(), build_entry(merged(name, data, found)));
  return load_package(place.directory.get(), place.path, kEntryFile);
}

Skill Store::import(int root, const Place& place, const std::string& name,
                    const boost::json::object& data) const {
  const std::string path = join_path(root_, name);
  if (is_hidden(name) || stat_beneath(root, name, Links::refuse)) {
    model::refuse(str("Skill directory already exists: ", path));
  }
  load_named(place.directory.get(), place.path);
  Staging staging(root, root_);
  const UniqueFd package = staging.make_package();
  copy_package(place.directory.get(), package.get());
  // What was copied counts, not what was there before.
  const Skill copied = load_named(package.get(), place.path);
  const std::string content = build_entry(merged(name, data, copied));
  check_text(content, entry_subject(kEntryFile));
  staging.replace_file(package.get(), kEntryFile, content);
  staging.publish({name});
  return load_package(package.get(), path, kEntryFile);
}

}  // namespace caisson::skill
