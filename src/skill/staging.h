#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"

namespace caisson::skill {

// A hidden directory beside the packages of a store, on the same file system, in which something is
// made whole before a rename makes it visible. It is locked while its maker lives; what a dead one
// left is recognised by its name and its free lock.
class Staging {
 public:
  // `root` is the open directory of the store; it is borrowed. `where` is its path, for errors.
  Staging(int root, std::string where);
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  ~Staging();  // removes it with all that is still in it; what resists stays for sweep()

  int directory() const { return directory_.get(); }

  // A new, empty directory for a package; published under its number.
  UniqueFd make_package();

  // Makes the packages, in the order they were made, visible under these names of the root: all of
  // them or none, also when the process is killed meanwhile, as far as the next sweep() goes.
  // Throws validation_error when a name is taken.
  void publish(const std::vector<std::string>& names);

  // Takes an entry out of `parent` at once, so that it goes with the staging directory.
  void take(int parent, const std::string& name);

  // Replaces `name` in `parent` by a file with this content: as a whole, or not at all.
  void replace_file(int parent, const std::string& name, std::string_view content);

  static bool is_staging_name(std::string_view name);

  // Undoes and removes what others left half done. Call it before the root is used.
  static void sweep(int root);

 private:
  int root_;
  std::string where_;
  std::string name_;
  UniqueFd directory_;  // the lock is on it
  std::size_t packages_ = 0;
  std::size_t taken_ = 0;
};

}  // namespace caisson::skill
