#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

// Limits on what a directory of the host may hold, enforced by the kernel: neither a box nor the
// daemon has to look on while somebody writes. choose.h picks the way that works on this host.
namespace caisson::quota {

struct Limit {
  std::uint64_t bytes = 0;
  std::uint64_t inodes = 0;  // files, directories, links: whatever has an inode
  bool operator==(const Limit&) const = default;
};

struct Usage {
  Limit used;
  Limit limit;
};

struct Enforced {
  bool bytes = false;
  bool inodes = false;
  bool operator==(const Enforced&) const = default;
};

enum class Data { keep, remove };

// What a daemon finds of the ones before it.
struct Recovery {
  std::vector<std::filesystem::path> limited;  // in force again
  std::vector<std::string> problems;           // sentences: what could not be, and what was lost
};

// One way to limit directories. Everything here blocks: callers on the event loop use
// async/blocking.h. Calls about different directories may overlap, calls about one may not, and no
// box is made on a directory while apply() or release() is at work on it.
//
// Some drivers mount something on the directory, in the mount namespace of the calling process. A
// host process in another one (a service with PrivateMounts, a container) does not see it, unless
// the mount propagates there: it would read and write the directory below, which has no limit.
//
// As an ordinary user no driver works: each needs CAP_SYS_ADMIN on the host.
class Driver {
 public:
  virtual ~Driver() = default;
  virtual std::string_view name() const = 0;
  virtual Enforced enforces() const = 0;

  // From now on the directory, which is made if it is missing and keeps what it holds, is bound by
  // the limit, also after a restart of the daemon. The same limit again changes nothing; another
  // one replaces the old. Throws storage_full when the directory holds more than that, and busy
  // when a box or a process uses what would have to be replaced.
  virtual void apply(const std::filesystem::path& directory, const Limit& limit) = 0;

  // Throws not_found for a directory without a limit.
  virtual Usage usage(const std::filesystem::path& directory) const = 0;

  // Takes the limit away. The directory then holds its data without one, or is gone with it.
  // Throws not_found for a directory without a limit, and busy while a box or a process uses it.
  virtual void release(const std::filesystem::path& directory, Data data) = 0;

  // To be called once, before anything else: limits of a daemon before us are put in force again,
  // what it left half done is finished or undone, and what belongs to nothing is removed. Only
  // what the records in our own state directory name is touched.
  virtual Recovery recover() = 0;
};

// Less than a file system can be made of is a mistake of the caller.
inline constexpr std::uint64_t kLeastBytes = 1u << 20;
inline constexpr std::uint64_t kLeastInodes = 16;

}  // namespace caisson::quota
