#include "skill/archive_packages.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "base/beneath.h"
#include "base/file.h"
#include "base/path.h"
#include "base/str.h"
#include "base/text.h"
#include "model/object_reader.h"
#include "skill/limits.h"
#include "skill/name.h"
#include "skill/new_tree.h"
#include "skill/package.h"
#include "skill/zip.h"

namespace caisson::skill {

namespace {

std::string_view leaf_of(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

// A path in an archive as people give it: "\" is "/", slashes at the ends count for nothing.
std::string source_path_of(std::string_view given) {
  std::string path(trim(given));
  std::replace(path.begin(), path.end(), '\\', '/');
  const std::size_t first = path.find_first_not_of('/');
  if (first == std::string::npos) return {};
  return path.substr(first, path.find_last_not_of('/') - first + 1);
}

std::string target_name_of(const UploadOptions& options, const std::string& source_path) {
  std::string name = target_stem(options.file_name);
  const std::string_view leaf = leaf_of(source_path);
  if (!leaf.empty() && leaf != name) name = str(name, "-", leaf);
  const std::string suffix = target_suffix(options.target_suffix);
  if (!suffix.empty()) name = str(name, "-", suffix);
  if (name.size() > kMaxNameBytes) {
    model::refuse(str("Skill directory name is too long: ", printable(name)));
  }
  return name;
}

// The path from `directory`; nullopt when it is not below it.
std::optional<std::string> path_below(const std::string& directory, const std::string& path) {
  if (directory.empty()) return path;
  if (path.size() <= directory.size() || !is_within(path, directory)) return std::nullopt;
  return path.substr(directory.size() + 1);
}

}  // namespace

ArchivePackages::ArchivePackages(std::string_view archive, const UploadOptions& options,
                                 const std::string& root)
    : entries_(read_zip_directory(archive)) {
  index_entries();
  const std::string start = start_directory(options.source_subdir);
  const std::vector<std::string> directories = find_directories(start);
  const std::map<std::string, std::string> texts = read_texts(directories);
  if (directories.empty()) {
    model::refuse(str("No SKILL.md found in ", join_path(options.file_name, start),
                      " or its subdirectories (max depth: ", kScanDepth, ")"));
  }
  const auto now =
      std::chrono::time_point_cast<std::chrono::microseconds>(std::chrono::system_clock::now());
  for (const std::string& directory : directories) {
    const std::string source_path = directory == start ? "" : *path_below(start, directory);
    ArchivePackage package{.directory = directory,
                           .target_name = target_name_of(options, source_path)};
    const std::string entry_name(leaf_of(entry_file(directory)->path));
    package.skill = read_skill(texts.at(directory), entry_name, package.target_name);
    package.skill.package_root = join_path(root, package.target_name);
    package.skill.python_project = is_python_project(directory);
    package.skill.created_at = package.skill.updated_at = now;  // as if it were unpacked now
    package.skill.source_path = source_path;
    packages_.push_back(std::move(package));
  }
  std::sort(packages_.begin(), packages_.end(),
            [](const auto& a, const auto& b) { return a.skill.source_path < b.skill.source_path; });
}

void ArchivePackages::index_entries() {
  folders_[""];
  for (const ZipEntry& entry : entries_) {
    std::vector<std::string_view> parts = split(entry.path, '/');
    if (!entry.is_directory) {
      files_.emplace(entry.path, &entry);
      parts.pop_back();
    }
    std::string folder;
    for (const std::string_view part : parts) {
      folders_[folder].emplace(part);
      folder = join_path(folder, part);
      folders_[folder];
    }
  }
}

std::string ArchivePackages::start_directory(const std::string& source_subdir) const {
  std::string start;
  const bool has_top_file = std::any_of(files_.begin(), files_.end(), [](const auto& file) {
    return file.first.find('/') == std::string::npos;
  });
  const std::set<std::string>& top = folders_.at("");
  if (!has_top_file && top.size() == 1) start = *top.begin();
  const std::string given = source_path_of(source_subdir);
  const std::optional<std::string> path = normal_relative(given);
  if (!path) model::refuse("source_subdir must stay within the uploaded archive");
  start = join_path(start, *path);
  if (!folders_.contains(start)) {
    model::refuse(str("source_subdir does not exist in the uploaded archive: ", given));
  }
  return start;
}

std::vector<std::string> ArchivePackages::find_directories(const std::string& start) const {
  std::vector<std::string> found;
  std::vector<std::string> level{start};
  for (unsigned depth = 0; depth <= kScanDepth; ++depth) {
    std::vector<std::string> next;
    for (const std::string& directory : level) {
      if (entry_file(directory) != nullptr) {
        found.push_back(directory);
        continue;
      }
      for (const std::string& name : folders_.at(directory)) {
        next.push_back(join_path(directory, name));
      }
    }
    level = std::move(next);
  }
  return found;
}

const ZipEntry* ArchivePackages::entry_file(const std::string& directory) const {
  for (const char* name : kEntryFiles) {
    const auto file = files_.find(join_path(directory, name));
    if (file != files_.end()) return file->second;
  }
  return nullptr;
}

// Decompresses everything, so that an archive that lies is refused, and keeps the entry files.
std::map<std::string, std::string> ArchivePackages::read_texts(
    const std::vector<std::string>& directories) const {
  std::map<std::string, std::string> texts;
  std::map<const ZipEntry*, std::string*> wanted;
  for (const std::string& directory : directories) {
    wanted.emplace(entry_file(directory), &texts[directory]);
  }
  for (const auto& [path, entry] : files_) {
    const auto text = wanted.find(entry);
    unpack(*entry, [&](std::string_view piece) {
      // One that is too large is refused as such later on.
      if (text != wanted.end() && text->second->size() <= kMaxTextBytes) {
        text->second->append(piece);
      }
    });
  }
  return texts;
}

bool ArchivePackages::is_python_project(const std::string& directory) const {
  return folders_.contains(join_path(directory, kPythonDirectory)) ||
         std::any_of(std::begin(kPythonFiles), std::end(kPythonFiles),
                     [&](const char* name) { return files_.contains(join_path(directory, name)); });
}

std::string ArchivePackages::available() const {
  std::vector<std::string> paths;
  for (const ArchivePackage& package : packages_) {
    const std::string& path = *package.skill.source_path;
    paths.push_back(path.empty() ? "." : path);
  }
  return join(paths, ", ");
}

std::vector<ArchivePackage> ArchivePackages::select(
    const std::vector<std::string>& source_paths) const {
  std::vector<std::string> chosen;
  for (const std::string& given : source_paths) {
    std::string path = source_path_of(given);
    if (std::find(chosen.begin(), chosen.end(), path) == chosen.end()) {
      chosen.push_back(std::move(path));
    }
  }
  if (chosen.empty() && packages_.size() == 1) return packages_;
  if (chosen.empty()) {
    model::refuse(
        str("Multiple skills found. Please choose one or more source_paths: ", available()));
  }
  std::vector<ArchivePackage> selected;
  for (const std::string& path : chosen) {
    const auto package = std::find_if(
        packages_.begin(), packages_.end(),
        [&](const ArchivePackage& candidate) { return candidate.skill.source_path == path; });
    if (package == packages_.end()) {
      model::refuse(str("Invalid source_path \"", path, "\". Available: ", available()));
    }
    selected.push_back(*package);
  }
  return selected;
}

void ArchivePackages::write(const ArchivePackage& package, int directory) const {
  NewTree tree(directory);
  for (const ZipEntry& entry : entries_) {
    const std::optional<std::string> path = path_below(package.directory, entry.path);
    if (!path) continue;
    if (entry.is_directory) {
      tree.add_directory(*path);
      continue;
    }
    const UniqueFd file = tree.add_file(*path, entry.is_executable);
    unpack(entry, [&](std::string_view piece) { write_all(file.get(), piece, *path); });
  }
}

}  // namespace caisson::skill
