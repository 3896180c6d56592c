#pragma once
#include <fcntl.h>
#include <sys/mount.h>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/temporary_directory.h"
#include "model/refusal_for_test.h"
#include "skill/store.h"

namespace caisson::skill {

using model::parse_json;
using model::refusal_of;

inline std::string entry_text(const std::string& name, const std::string& more = "") {
  return "---\nname: " + name + "\n" + more + "---\n\nDo it.\n";
}

// A file system in memory on a directory, which it makes: one that can be full, and on which ten
// thousand entries take no time. Takes root; otherwise the directory stays what it is.
class MemoryFileSystem {
 public:
  explicit MemoryFileSystem(std::string path, const std::string& options = "")
      : path_(std::move(path)) {
    std::filesystem::create_directories(path_);
    mounted_ = ::mount("tmpfs", path_.c_str(), "tmpfs", 0, options.c_str()) == 0;
  }
  MemoryFileSystem(const MemoryFileSystem&) = delete;
  MemoryFileSystem& operator=(const MemoryFileSystem&) = delete;
  ~MemoryFileSystem() {
    if (mounted_) ::umount2(path_.c_str(), MNT_DETACH);
  }
  bool mounted() const { return mounted_; }

 private:
  std::string path_;
  bool mounted_ = false;
};

// A store on a directory of its own, with a workspace beside it that may be imported from.
class Scene {
 public:
  Scene() { std::filesystem::create_directory(workspace()); }

  std::string root() const { return directory_ / "skills"; }
  std::string workspace() const { return directory_ / "workspace"; }
  std::string outside() const { return directory_ / "outside"; }
  Store store() const { return Store(root(), {.roots = {workspace()}, .rules = {}}); }
  Store scoped() const {
    return Store::scoped(root(), "ws-1", {.roots = {workspace()}, .rules = {}});
  }

  // Writes a file below the scene's directory, with its parents: "skills/x/SKILL.md".
  void put(const std::string& path, const std::string& content) const {
    const std::filesystem::path whole = directory_ / path;
    std::filesystem::create_directories(whole.parent_path());
    const UniqueFd file = open_file(whole, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    write_all(file.get(), content, path);
  }
  void link(const std::string& target, const std::string& path) const {
    const std::filesystem::path whole = directory_ / path;
    std::filesystem::create_directories(whole.parent_path());
    std::filesystem::create_symlink(target, whole);
  }
  std::string content(const std::string& path) const {
    return caisson::read_file(directory_ / path);
  }
  bool exists(const std::string& path) const {
    return std::filesystem::exists(std::filesystem::symlink_status(directory_ / path));
  }
  // All that is below a directory of the scene, hidden things too.
  std::set<std::string> tree(const std::string& path = "skills") const {
    std::set<std::string> paths;
    const std::filesystem::path start = directory_ / path;
    if (!std::filesystem::exists(start)) return paths;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(start)) {
      paths.insert(entry.path().lexically_relative(start).native());
    }
    return paths;
  }
  const std::filesystem::path& path() const { return directory_.path(); }

 private:
  TemporaryDirectory directory_;
};

inline std::vector<std::string> names_of(const std::vector<Skill>& skills) {
  std::vector<std::string> names;
  names.reserve(skills.size());
  for (const Skill& skill : skills) names.push_back(skill.name);
  return names;
}

inline boost::json::object object(std::string_view json) {
  return parse_json(json).as_object();
}

}  // namespace caisson::skill
