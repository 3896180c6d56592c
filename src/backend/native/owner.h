#pragma once
#include <filesystem>
#include <functional>
#include <set>
#include <vector>

#include "base/unique_fd.h"

namespace caisson::backend::native {

// Several owners of boxes may live on one host: a daemon, another daemon, any number of embedded
// runs. Each has a number that is its own while it lives, held by a lock that the kernel releases
// when the process dies, however it dies. Ids, cgroups and network tables of boxes carry the
// number.
class Owner {
 public:
  static constexpr unsigned kMaxOwners = 4096;

  // Takes the lowest free number in the lock directory, which is made if missing. With the lock of
  // an owner before us, its number.
  explicit Owner(std::filesystem::path directory, UniqueFd inherited = {});
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;
  ~Owner();  // gives the number back, unless somebody else is to have it
  void abandon() { abandoned_ = true; }

  unsigned number() const { return number_; }
  int lock() const { return lock_.get(); }  // the number is taken while anybody holds it open
  // The last owner of this number did not give it back: something of it may be left.
  bool follows_a_dead_one() const { return follows_a_dead_one_; }

  // Calls `clean` with the number of each dead owner, which nobody can take meanwhile: those whose
  // locks are still there, and those of `suspected` that turn out to be dead. A number for which it
  // answers true is forgotten.
  void with_dead_owners(const std::function<bool(unsigned number)>& clean,
                        const std::set<unsigned>& suspected = {}) const;

  // Whether the number belongs to a living owner: this one, or one whose lock is held.
  bool is_live(unsigned number) const;

 private:
  UniqueFd take(unsigned number) const;

  std::filesystem::path directory_;
  unsigned number_ = 0;
  UniqueFd lock_;
  bool follows_a_dead_one_ = false;
  bool abandoned_ = false;
};

// Where locks of this user's owners are: /run/caisson for root, the user's runtime directory
// otherwise.
std::filesystem::path runtime_directory();

}  // namespace caisson::backend::native
