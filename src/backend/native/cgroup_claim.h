#pragma once
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/native/cgroup_host.h"
#include "base/unique_fd.h"

namespace caisson::backend::native {

// Whether an owner lives is told by what it would leave behind: it holds a lock on its own
// directory in the control groups, for as long as anybody has the descriptor open. Whoever sees the
// directory sees the lock, also from another mount or cgroup namespace, where a lock in a runtime
// directory says nothing. The directories are closed to others than their user, who could lock them
// for good.

// Locks the directory, which is made if missing. Nothing while somebody else has it.
UniqueFd make_locked_group(const std::filesystem::path& path);
// The same of one that is there; nothing also when there is none, or when it is another user's.
UniqueFd lock_group(const std::filesystem::path& path);

// Whether the path still leads to this directory.
bool leads_to(const std::filesystem::path& path, int directory);

// The directories of one owner name, locked, wherever the owner may make any.
class CgroupClaim {
 public:
  CgroupClaim() = default;
  CgroupClaim(CgroupClaim&&) noexcept = default;
  CgroupClaim& operator=(CgroupClaim&& other) noexcept {
    std::swap(directories_, other.directories_);
    return *this;
  }
  ~CgroupClaim();  // removes what nobody extracted

  // Nothing when one of the directories is somebody's, or processes live in it: those of an owner
  // without a lock, or of one that has died and whose boxes have not ended yet.
  static std::optional<CgroupClaim> take(const CgroupHost& host, std::string_view owner);

  // The directories of an owner before us, with the locks that it left; those it left none of are
  // locked, whatever lives in them. Throws backend_unavailable when one is somebody else's.
  static CgroupClaim inherit(const CgroupHost& host, std::string_view owner,
                             std::vector<UniqueFd> locks);

  // The directory at this path; nothing when the claim is not about it.
  UniqueFd extract(const std::filesystem::path& path);

 private:
  std::map<std::filesystem::path, UniqueFd> directories_;
};

}  // namespace caisson::backend::native
