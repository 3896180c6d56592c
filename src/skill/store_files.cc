#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <climits>

#include "base/beneath.h"
#include "base/directory.h"
#include "base/error.h"
#include "base/file.h"
#include "base/str.h"
#include "base/text.h"
#include "base/utf8.h"
#include "model/object_reader.h"
#include "skill/limits.h"
#include "skill/package.h"
#include "skill/staging.h"
#include "skill/storage_error.h"
#include "skill/store.h"

namespace caisson::skill {

namespace {

constexpr int kMaxLinks = 40;  // as the kernel

[[noreturn]] void refuse_escape() {
  model::refuse("path must stay within the skill package root");
}

// The path as the caller gave it, in normal form; "" is the package.
std::string package_path(std::string_view given) {
  const std::string_view path = trim(given);
  if (path.starts_with('/')) model::refuse("path must be relative to the skill package root");
  std::optional<std::string> normal = normal_relative(path);
  if (!normal) refuse_escape();
  return std::move(*normal);
}

std::string shown(const std::string& path) {
  return path.empty() ? "." : path;
}

// Why an open failed: a way that leads out is an escape, anything else means that there is nothing
// of that kind.
void check_escape(const UniqueFd& fd) {
  if (!fd && errno == EXDEV) refuse_escape();
}

// A directory of the package that a file is to be in. Missing ones are made in the directory that
// was reached so far.
UniqueFd make_parents(int package, const std::string& path, const std::string& shown_path) {
  UniqueFd current = open_file_at(package, ".", O_RDONLY | O_DIRECTORY);
  if (path.empty()) return current;
  std::string reached;
  for (const std::string_view part : split(path, '/')) {
    const std::string name(part);
    reached = join_path(reached, name);
    UniqueFd next = open_beneath(package, reached, O_RDONLY | O_DIRECTORY, Links::inside);
    check_escape(next);
    if (!next && errno == ENOENT) next = make_directory_at(current.get(), name, shown_path);
    if (!next) model::refuse(str("Skill directory not found: ", reached));
    current = std::move(next);
  }
  return current;
}

struct Target {
  UniqueFd parent;
  std::string name;
};

// Where a file is written: a symlink is followed as long as it stays in the package, and is not
// replaced by the file.
Target find_target(int package, std::string path) {
  const std::string first = path;
  for (int links = 0; links < kMaxLinks; ++links) {
    const std::size_t slash = path.rfind('/');
    const std::string directory = slash == std::string::npos ? "" : path.substr(0, slash);
    Target target{.parent = make_parents(package, directory, first),
                  .name = path.substr(slash + 1)};
    std::string link(PATH_MAX, '\0');
    const ssize_t length =
        ::readlinkat(target.parent.get(), target.name.c_str(), link.data(), link.size());
    if (length < 0) return target;  // no link, or nothing yet
    link.resize(static_cast<std::size_t>(length));
    if (link.starts_with('/')) refuse_escape();
    const std::optional<std::string> next = normal_relative(join_path(directory, link));
    if (!next || next->empty()) refuse_escape();
    path = *next;
  }
  refuse_escape();
}

FileEntry describe(int package, const std::string& directory, const std::string& name) {
  const std::string path = join_path(directory, name);
  FileEntry entry{.path = decode_utf8(path), .name = decode_utf8(name)};
  const auto info = stat_beneath(package, path, Links::inside);
  if (!info) return entry;  // a symlink that leads out, or to nothing
  entry.is_directory = S_ISDIR(info->st_mode);
  if (!entry.is_directory) entry.size = static_cast<std::uint64_t>(info->st_size);
  return entry;
}

std::vector<std::string> names_in(int directory, const std::string& path, bool include_hidden) {
  std::vector<std::string> names;
  std::size_t count = 0;
  for_each_entry(directory, path, [&](const dirent& entry) {
    if (++count > kMaxDirectoryEntries) {
      model::refuse("Skill directory exceeds the configured entry limit");
    }
    if (include_hidden || entry.d_name[0] != '.') names.emplace_back(entry.d_name);
  });
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

FileList Store::list_files(std::string_view name, const ListFiles& request) const {
  if (request.max_entries <= 0) model::refuse("max_entries must be a positive integer");
  const auto most =
      static_cast<std::size_t>(std::min<std::int64_t>(request.max_entries, kMaxListedFiles));
  const UniqueFd root = open_root();
  const UniqueFd package = require_package(root.get(), name);
  const std::string path = package_path(request.path);
  const UniqueFd directory =
      open_beneath(package.get(), path, O_RDONLY | O_DIRECTORY, Links::inside);
  check_escape(directory);
  if (!directory) {
    const std::string given(trim(request.path));
    model::refuse(str("Skill directory not found: ", shown(given)));
  }
  std::vector<std::string> names = names_in(directory.get(), path, request.include_hidden);
  FileList list{.base_path = shown(path), .truncated = names.size() > most};
  names.resize(std::min(names.size(), most));
  for (const std::string& entry : names) {
    list.entries.push_back(describe(package.get(), path, entry));
  }
  return list;
}

FileContent Store::read_file(std::string_view name, std::string_view path) const {
  const UniqueFd root = open_root();
  const UniqueFd package = require_package(root.get(), name);
  const std::string relative = package_path(path);
  check_escape(open_beneath(package.get(), relative, O_PATH, Links::inside));
  std::optional<std::string> content =
      read_text(package.get(), relative, str("Skill file ", shown(relative)));
  if (!content) model::refuse(str("Skill file not found: ", shown(relative)));
  return {.path = shown(relative), .content = std::move(*content)};
}

FileWritten Store::write_file(std::string_view name, std::string_view path,
                              std::string_view content) const try {
  const UniqueFd root = open_root();
  const UniqueFd package = require_package(root.get(), name);
  const std::string relative = package_path(path);
  check_text(content, str("Skill file ", shown(relative)));
  if (relative.empty() || is_directory_beneath(package.get(), relative)) {
    model::refuse(
        str("path must name a file of the skill package, not a directory: ", shown(relative)));
  }
  const Target target = find_target(package.get(), relative);
  Staging staging(root.get(), root_);
  staging.replace_file(target.parent.get(), target.name, content);
  return {.path = relative, .bytes_written = content.size()};
} catch (const SystemError&) {
  rethrow_storage_error(str("skill \"", printable(name), "\""));
}

}  // namespace caisson::skill
