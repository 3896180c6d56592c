#pragma once
#include <boost/json/object.hpp>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"
#include "model/mount_rules.h"
#include "skill/archive_packages.h"
#include "skill/skill.h"

namespace caisson::skill {

// What list_files() is asked for and answers. Paths are relative to the package, with "/".
struct ListFiles {
  std::string path = ".";
  bool include_hidden = false;
  std::int64_t max_entries = 200;  // more than 1000 is 1000
};
struct FileEntry {
  std::string path;
  std::string name;
  bool is_directory = false;
  std::uint64_t size = 0;  // of what is no directory
  bool operator==(const FileEntry&) const = default;
};
struct FileList {
  std::string base_path;  // "." is the package
  std::vector<FileEntry> entries;
  bool truncated = false;
};
struct FileContent {
  std::string path;
  std::string content;
};
struct FileWritten {
  std::string path;
  std::size_t bytes_written = 0;
};

// Where packages are copied in (create) and looked at (scan_directory) from.
struct Imports {
  std::vector<std::string> roots;  // absolute, without symlinks; empty: nowhere
  model::MountRules rules;         // what may not be mounted may not be read either
};

// The packages of skills in one directory. The directory is the only truth: nothing is kept in
// memory, and whoever puts a package there has added a skill.
//
// Every function blocks and belongs on a pool for blocking work; one at a time on one root. Boxes
// may write into packages at any moment: whatever they put where, nothing outside of a package is
// read or written through it, and what is written appears as a whole or not at all. What a killed
// process left half done is undone before the next operation.
//
// What a caller did wrong is a validation_error whose sentence clients know from LangBot; a full
// disk is storage_full.
class Store {
 public:
  // A store without a scope. A directory `tenants` in it belongs to scoped stores and is not seen.
  // The root is absolute and resolved: a symlink on the way to it came later and is refused.
  explicit Store(const std::filesystem::path& root, Imports imports = {});

  // The store of one namespace, in tenants/<name> below the root.
  static Store scoped(const std::filesystem::path& root, std::string_view name_space,
                      Imports imports = {});

  const std::string& root() const { return root_; }  // absolute

  // Newest first, without unreadable packages. Makes the directory of the store when it is missing,
  // as every function does that looks into it.
  std::vector<Skill> list() const;
  std::optional<Skill> get(std::string_view name) const;  // the newest of that name
  // Where its package is, to be mounted.
  std::optional<std::string> find_package(std::string_view name) const;

  // From a JSON object with name, display_name, description, instructions and package_root. Without
  // a package_root the package is a new directory: one that is there already is not taken. With a
  // package_root in the store the package there is taken over in place; with one elsewhere it is
  // copied; fields that are absent or blank then stay as they are in it.
  Skill create(const boost::json::object& data) const;
  // Fields that are absent stay as they are. Neither name nor package_root can change.
  Skill update(std::string_view name, const boost::json::object& data) const;
  // Removes the directory at the top of the store that the package is in, or only the package where
  // there are others in that directory.
  void remove(std::string_view name) const;

  // The one package in a directory or at most two levels below it.
  Skill scan_directory(const std::string& path) const;

  // Files of a package. Symlinks count as what they point to, as long as that is in the package.
  FileList list_files(std::string_view name, const ListFiles& request) const;
  FileContent read_file(std::string_view name, std::string_view path) const;
  // Makes the directories on the way.
  FileWritten write_file(std::string_view name, std::string_view path,
                         std::string_view content) const;

  // The packages of a zip archive (skill/zip.h reads one from a descriptor) as they would be
  // installed.
  std::vector<Skill> preview_zip(std::string_view archive, const UploadOptions& options) const;
  // Installs the packages with these source paths ("" is the root of the archive), all of them or
  // none. Without any, the only one.
  std::vector<Skill> install_zip(std::string_view archive, const UploadOptions& options,
                                 const std::vector<std::string>& source_paths = {}) const;

 private:
  struct Located {
    Skill skill;
    std::string path;  // from the root
  };
  // A directory that a caller named by its path.
  struct Place {
    std::string path;                     // absolute
    UniqueFd directory;                   // invalid: there is none
    std::optional<std::string> in_store;  // its path from the root
  };

  UniqueFd open_root() const;
  bool is_hidden(std::string_view top_name) const;
  std::vector<Located> locate_all(int root) const;
  bool is_listed(int root, const std::string& path) const;
  std::optional<Located> find(int root, std::string_view name) const;
  Located require(int root, std::string_view name) const;
  UniqueFd open_package(int root, const Located& located) const;
  UniqueFd require_package(int root, std::string_view name) const;
  Place locate(int root, const std::string& path, std::string_view label) const;
  void write_entry(int root, int package, const std::string& content) const;

  Skill create_in_store(int root, const std::string& name, const boost::json::object& data) const;
  Skill adopt(int root, const Place& place, const std::string& name,
              const boost::json::object& data) const;
  Skill import(int root, const Place& place, const std::string& name,
               const boost::json::object& data) const;

  std::string root_;
  std::string base_;   // the configured root; root_ is it or below it
  std::string scope_;  // the namespace; "" is none
  Imports imports_;
};

}  // namespace caisson::skill
