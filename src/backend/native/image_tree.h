#pragma once
#include <sys/types.h>

#include <cstdint>
#include <ctime>
#include <functional>
#include <string>
#include <string_view>

#include "base/unique_fd.h"

namespace caisson::backend::native {

struct TreeLimits {
  std::uint64_t entries = 2'000'000;
  std::uint64_t bytes = 64ull << 30;  // of content that really arrived, whatever a header promised
  unsigned depth = 128;
};

struct TreeCount {
  std::uint64_t entries = 0;
  std::uint64_t bytes = 0;
};

// Called after each entry and each piece of a large file. An exception from it ends the work.
using TreeProgress = std::function<void(const TreeCount&)>;

struct EntryAttributes {
  unsigned mode = 0755;  // set-user-id and set-group-id are dropped
  std::int64_t uid = 0;
  std::int64_t gid = 0;
  timespec modified{};
};

// Writes the entries of an untrusted source below one directory. Every component of a path is
// opened without following a symlink, nothing that exists is ever replaced, and the limits hold
// over the whole tree. Paths are as entry_path() makes them. Extended attributes and times of
// directories are not kept.
class TreeWriter {
 public:
  // `root` is an open directory that is empty and belongs to us.
  TreeWriter(int root, TreeLimits limits, TreeProgress progress);

  // A directory may come twice; the later attributes count.
  void add_directory(const std::string& path, const EntryAttributes& attributes);
  void add_symlink(const std::string& path, const std::string& target,
                   const EntryAttributes& attributes);
  void add_hard_link(const std::string& path, const std::string& existing);

  class File {
   public:
    void write_at(std::uint64_t offset, std::string_view data);
    void finish(std::uint64_t size);  // a hole up to `size`, then owner, mode and time

   private:
    friend class TreeWriter;
    File(TreeWriter& tree, UniqueFd fd, std::string path, const EntryAttributes& attributes)
        : tree_(tree), fd_(std::move(fd)), path_(std::move(path)), attributes_(attributes) {}
    TreeWriter& tree_;
    UniqueFd fd_;
    std::string path_;
    EntryAttributes attributes_;
    std::uint64_t end_ = 0;
  };
  File add_file(const std::string& path, const EntryAttributes& attributes);

  // For what is read but not written: it counts towards the limits as well.
  void count_entry(const std::string& path);
  void count_bytes(std::uint64_t bytes);

  int root() const { return root_; }
  const TreeCount& count() const { return count_; }
  // False for an ordinary user, and where the kernel refused one owner: then all files may be ours.
  bool owners_kept() const { return owners_kept_; }

 private:
  struct Place {
    int directory;  // borrowed from the cache of the last parent, or the root
    std::string name;
  };
  Place place(const std::string& path, bool make_parents);
  UniqueFd open_below(int directory, const std::string& name, const std::string& path,
                      bool make_parents);
  void set_owner(int directory, const std::string& name, const std::string& path,
                 const EntryAttributes& attributes);

  int root_;
  TreeLimits limits_;
  TreeProgress progress_;
  TreeCount count_;
  bool privileged_;
  bool owners_kept_;
  std::string last_parent_;  // archives list a directory's files in a row
  UniqueFd last_parent_fd_;
};

// The path of an entry relative to the root, in normal form: leading slashes and "." are dropped,
// as tar does. Empty for the root itself. Throws validation_error for "..".
std::string entry_path(std::string_view raw);

}  // namespace caisson::backend::native
