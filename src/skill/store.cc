#include "skill/store.h"

#include <fcntl.h>

#include <algorithm>

#include "base/beneath.h"
#include "base/error.h"
#include "base/exhaustion.h"
#include "base/file.h"
#include "base/path.h"
#include "base/str.h"
#include "base/text.h"
#include "model/object_reader.h"
#include "skill/discovery.h"
#include "skill/entry_fields.h"
#include "skill/limits.h"
#include "skill/package.h"
#include "skill/staging.h"
#include "skill/storage_error.h"

namespace caisson::skill {

namespace fs = std::filesystem;

namespace {

using model::kTenants;

std::size_t text_bytes(const Skill& skill) {
  return skill.name.size() + skill.display_name.size() + skill.description.size() +
         skill.instructions.size() + skill.package_root.size() + skill.entry_file.size();
}

}  // namespace

Store::Store(const fs::path& root, Imports imports)
    : root_(normalise_path(root.native())), base_(root_), imports_(std::move(imports)) {}

Store Store::scoped(const fs::path& root, std::string_view name_space, Imports imports) {
  const std::string_view name = trim(name_space);
  constexpr std::string_view kForbidden("/\\\0", 3);
  if (name.empty() || name == "." || name == ".." ||
      name.find_first_of(kForbidden) != std::string_view::npos) {
    model::refuse("Invalid Box skill namespace");
  }
  Store store(root, std::move(imports));
  store.scope_ = name;
  store.root_ = join_path(join_path(store.base_, kTenants), store.scope_);
  return store;
}

UniqueFd Store::open_root() const {
  UniqueFd root = make_directories(base_);
  if (!scope_.empty()) {
    root = make_directory_at(root.get(), kTenants, root_);
    root = make_directory_at(root.get(), scope_, root_);
  }
  root = open_beneath(root.get(), "", O_RDONLY | O_DIRECTORY, Links::refuse);
  check_syscall(root_, root.get());
  Staging::sweep(root.get());
  return root;
}

bool Store::is_hidden(std::string_view top_name) const {
  return Staging::is_staging_name(top_name) || (scope_.empty() && top_name == kTenants);
}

std::vector<Store::Located> Store::locate_all(int root) const {
  std::vector<Located> all;
  std::size_t bytes = 0;
  const auto skip = [this](std::string_view name) { return is_hidden(name); };
  for (FoundPackage& found : discover(root, kListDepth, skip)) {
    try {
      const UniqueFd package =
          open_beneath(root, found.path, O_RDONLY | O_DIRECTORY, Links::refuse);
      if (!package) continue;
      Located located{
          .skill = load_package(package.get(), join_path(root_, found.path), found.entry_file),
          .path = std::move(found.path)};
      bytes += text_bytes(located.skill);
      all.push_back(std::move(located));
    } catch (const SystemError& error) {
      if (is_exhaustion(error.error_number())) throw;  // not the package's fault
    } catch (const Error& error) {
      if (error.code() != ErrorCode::validation_error) throw;
    }
    if (bytes > kMaxListedTextBytes) {
      model::refuse("Skill listing exceeds the configured text limit");
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const Located& a, const Located& b) {
    return a.skill.updated_at > b.skill.updated_at;
  });
  return all;
}

std::optional<Store::Located> Store::find(int root, std::string_view name) const {
  for (Located& located : locate_all(root)) {
    if (located.skill.name == name) return std::move(located);
  }
  return std::nullopt;
}

Store::Located Store::require(int root, std::string_view name) const {
  std::optional<Located> located = find(root, name);
  if (!located) model::refuse(str("Skill \"", name, "\" not found"));
  return std::move(*located);
}

UniqueFd Store::open_package(int root, const Located& located) const {
  UniqueFd package = open_beneath(root, located.path, O_RDONLY | O_DIRECTORY, Links::refuse);
  check_syscall(located.skill.package_root, package.get());
  return package;
}

UniqueFd Store::require_package(int root, std::string_view name) const {
  return open_package(root, require(root, name));
}

std::vector<Skill> Store::list() const {
  const UniqueFd root = open_root();
  std::vector<Skill> skills;
  for (Located& located : locate_all(root.get())) skills.push_back(std::move(located.skill));
  return skills;
}

std::optional<Skill> Store::get(std::string_view name) const {
  const UniqueFd root = open_root();
  std::optional<Located> located = find(root.get(), name);
  if (!located) return std::nullopt;
  return std::move(located->skill);
}

std::optional<std::string> Store::find_package(std::string_view name) const {
  std::optional<Skill> skill = get(name);
  if (!skill) return std::nullopt;
  return std::move(skill->package_root);
}

void Store::write_entry(int root, int package, const std::string& content) const {
  check_text(content, entry_subject(kEntryFile));
  Staging staging(root, root_);
  staging.replace_file(package, kEntryFile, content);
}

Skill Store::update(std::string_view name, const boost::json::object& data) const try {
  const UniqueFd root = open_root();
  const Located located = require(root.get(), name);
  const Skill& skill = located.skill;
  const std::string wanted_name(trim(field_text(data, "name").value_or("")));
  if (!wanted_name.empty() && wanted_name != skill.name) {
    model::refuse("Renaming skills is not supported");
  }
  const std::string wanted_root(trim(field_text(data, "package_root").value_or("")));
  if (!wanted_root.empty() && wanted_root != skill.package_root &&
      canonical_path(wanted_root) != skill.package_root) {
    model::refuse(
        "Updating package_root is not supported; recreate the skill to import a different package");
  }
  const auto text = [&](const char* field, const std::string& current) {
    return data.contains(field) ? field_text(data, field).value_or("") : current;
  };
  const EntryText entry{.name = skill.name,
                        .display_name = text("display_name", skill.display_name),
                        .description = text("description", skill.description),
                        .instructions = text("instructions", skill.instructions)};
  const UniqueFd package = open_package(root.get(), located);
  write_entry(root.get(), package.get(), build_entry(entry));
  return load_package(package.get(), skill.package_root, kEntryFile);
} catch (const SystemError&) {
  rethrow_storage_error(str("skill \"", printable(name), "\""));
}

void Store::remove(std::string_view name) const {
  const UniqueFd root = open_root();
  const Located located = require(root.get(), name);
  if (located.path.empty()) {
    model::refuse("Only managed skills under the Box skills root can be deleted");
  }
  const std::string top = located.path.substr(0, located.path.find('/'));
  const UniqueFd directory = open_beneath(root.get(), top, O_RDONLY | O_DIRECTORY, Links::refuse);
  check_syscall(join_path(root_, top), directory.get());
  const bool alone = discover(directory.get(), kListDepth - 1).size() <= 1;
  Staging staging(root.get(), root_);
  if (alone) {
    staging.take(root.get(), top);
    return;
  }
  const std::size_t slash = located.path.rfind('/');
  const UniqueFd parent = open_beneath(root.get(), located.path.substr(0, slash),
                                       O_RDONLY | O_DIRECTORY, Links::refuse);
  check_syscall(located.skill.package_root, parent.get());
  staging.take(parent.get(), located.path.substr(slash + 1));
}

}  // namespace caisson::skill
