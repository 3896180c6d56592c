// A zip archive as anybody may upload it: refused as a validation_error, or installed as exactly
// what its preview says, below the store and nowhere else.
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include "base/temporary_directory.h"
#include "fuzz.h"
#include "skill/limits.h"
#include "skill/store.h"
#include "skill/zip.h"

namespace {

using namespace caisson;
using namespace caisson::skill;
using fuzz::require;
namespace fs = std::filesystem;

void check_entries(std::string_view archive) {
  const std::vector<ZipEntry> entries = read_zip_directory(archive);
  require(entries.size() <= kMaxEntries);
  std::uint64_t total = 0;
  for (const ZipEntry& entry : entries) {
    const fs::path path(entry.path);
    require(path.is_relative() && path == path.lexically_normal() && !entry.path.empty());
    require(*path.begin() != ".." && entry.path.find('\0') == std::string::npos);
    std::uint64_t size = 0;
    if (!entry.is_directory) unpack(entry, [&](std::string_view piece) { size += piece.size(); });
    require(size == entry.size && size <= kMaxFileBytes);
    total += size;
  }
  require(total <= kMaxTotalBytes && total <= kMaxRatio * archive.size());
}

// Whatever is below a store is a file or a directory that others can read.
void check_tree(const fs::path& root) {
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root)) {
    const fs::file_status status = entry.symlink_status();
    require(fs::is_regular_file(status) || fs::is_directory(status));
    const auto mode = static_cast<unsigned>(status.permissions());
    require(mode == 0755 || (mode == 0644 && fs::is_regular_file(status)));
  }
}

void install(std::string_view archive, const TemporaryDirectory& directory) {
  const Store store(directory / "skills");
  const std::vector<Skill> previews = store.preview_zip(archive, {});
  std::vector<std::string> chosen;
  for (const Skill& preview : previews) chosen.push_back(*preview.source_path);
  const std::vector<Skill> installed = store.install_zip(archive, {}, chosen);
  require(installed.size() == previews.size());
  check_tree(store.root());
  for (const Skill& skill : installed) {
    require(skill.package_root.starts_with(store.root() + "/"));
    require(fs::is_directory(skill.package_root));
    require(store.get(skill.name).has_value());
  }
  for (const Skill& skill : store.list()) store.remove(skill.name);
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view archive = fuzz::text(data, size);
  const TemporaryDirectory directory;
  try {
    check_entries(archive);
    install(archive, directory);
  } catch (const Error& error) {
    require(error.code() == ErrorCode::validation_error);
    if (fs::exists(directory / "skills")) require(fs::is_empty(directory / "skills"));
  }
  require(!fs::exists(directory / "skills") ||
          std::distance(fs::directory_iterator(directory.path()), {}) == 1);
  return 0;
}
