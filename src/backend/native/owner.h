#pragma once
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "base/unique_fd.h"

namespace caisson::backend::native {

// Several owners of boxes may live on one host: a daemon, another daemon, any number of embedded
// runs. Each has a number that is its own while it lives, held by a lock that the kernel releases
// when the process dies, however it dies. Ids and cgroups of boxes carry the number.
//
// The lock in the directory is seen by who sees the directory. What else carries the number has a
// claim of its own, where it is (CgroupClaim).
class Owner {
 public:
  static constexpr unsigned kMaxOwners = 4096;

  // Whether a number that is free in the directory is free elsewhere; if so, it is taken there.
  using Claim = std::function<bool(unsigned number)>;

  // What an owner before us left: its lock, and its number where that is known. The lock may be one
  // of another directory.
  struct Left {
    UniqueFd lock;
    std::optional<unsigned> number;
  };

  // Takes the lowest free number in the lock directory, which is made if missing; or that of an
  // owner before us, of which `claim` is not asked.
  explicit Owner(std::filesystem::path directory, Left left = {}, const Claim& claim = {});
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;
  ~Owner();  // gives the number back, unless somebody else is to have it
  void abandon() { abandoned_ = true; }

  unsigned number() const { return number_; }
  // Whether the one who had the number before us died with it, and may have left what carries it.
  bool follows_dead() const { return follows_dead_; }
  int lock() const { return lock_.get(); }  // the number is taken while anybody holds it open

  // Calls `clean` with the number of each dead owner, which nobody can take meanwhile: those whose
  // locks are still there, and those of `suspected` that nobody holds here. A number for which it
  // answers true is forgotten.
  void with_dead_owners(const std::function<bool(unsigned number)>& clean,
                        const std::set<unsigned>& suspected = {}) const;

  // Whether the number belongs to a living owner: this one, or one whose lock is held.
  bool is_live(unsigned number) const;

 private:
  UniqueFd take(unsigned number) const;
  bool inherit(Left left);

  std::filesystem::path directory_;
  unsigned number_ = 0;
  UniqueFd lock_;
  bool follows_dead_ = false;
  bool abandoned_ = false;
};

// Where locks of this user's owners are: /run/caisson for root, the user's runtime directory
// otherwise.
std::filesystem::path runtime_directory();

}  // namespace caisson::backend::native
