#pragma once
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "skill/skill.h"
#include "skill/zip_directory.h"

namespace caisson::skill {

// How an upload is to be understood.
struct UploadOptions {
  std::string file_name = "skill.zip";  // names the directories that are made
  std::string source_subdir;            // look only below this directory of the archive
  std::string target_suffix = "upload";
};

struct ArchivePackage {
  std::string directory;    // in the archive; "" is all of it
  std::string target_name;  // the directory it gets in the store
  Skill skill;              // package_root is target_name below the store's root
};

// The packages of an uploaded archive, down to two levels below its root, by source path. A single
// directory at its top is taken for the root. All of the archive is judged and decompressed before
// anything is shown or written; what lies, or holds no package or an unreadable one, is refused as
// a validation_error.
class ArchivePackages {
 public:
  // `archive` has to outlive the object; `root` is the path of the store.
  ArchivePackages(std::string_view archive, const UploadOptions& options, const std::string& root);

  const std::vector<ArchivePackage>& packages() const { return packages_; }

  // Those with these source paths, in this order; the only one when none is chosen.
  std::vector<ArchivePackage> select(const std::vector<std::string>& source_paths) const;

  // Writes a package into an open empty directory.
  void write(const ArchivePackage& package, int directory) const;

 private:
  void index_entries();
  std::string start_directory(const std::string& source_subdir) const;
  std::vector<std::string> find_directories(const std::string& start) const;
  const ZipEntry* entry_file(const std::string& directory) const;
  std::map<std::string, std::string> read_texts(const std::vector<std::string>& directories) const;
  bool is_python_project(const std::string& directory) const;
  std::string available() const;

  std::vector<ZipEntry> entries_;
  std::map<std::string, const ZipEntry*> files_;          // by path
  std::map<std::string, std::set<std::string>> folders_;  // the names of folders in each folder
  std::vector<ArchivePackage> packages_;
};

}  // namespace caisson::skill
