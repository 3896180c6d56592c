#pragma once
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

// Who holds the file locks of this host. The kernel keeps byte-range locks in memory that no
// control group counts, and has no limit for their number, so somebody has to look.
namespace caisson::backend::native {

// What a box may hold while the host's kernel memory grows. A lock takes some 200 bytes.
inline constexpr std::uint64_t kMostLocks = 4096;

// One line of /proc/locks that is a lock in force; nothing for one that is waited for.
struct HeldLock {
  pid_t holder = 0;  // who asked for it, and may have ended since; -1: nobody in particular
  std::string file;  // "fe:00:9977926", device and inode
  bool operator==(const HeldLock&) const = default;
};
std::optional<HeldLock> parse_lock(std::string_view line);

// Counts locks of boxes until one of them has more than it may, or there are no more lines.
class LockCensus {
 public:
  // The guest whose box a process is in, by the numbers that processes have on the host.
  using FindGuest = std::function<std::optional<pid_t>(pid_t)>;
  // Whether a process has the file open.
  using HasOpen = std::function<bool(pid_t, const std::string& file)>;
  LockCensus(FindGuest find_guest, HasOpen has_open)
      : find_guest_(std::move(find_guest)), has_open_(std::move(has_open)) {}

  // False when enough is known.
  bool count(std::string_view line);

  struct Culprit {
    pid_t guest = 0;
    std::uint64_t locks = 0;  // at least
    bool operator==(const Culprit&) const = default;
  };
  const std::optional<Culprit>& culprit() const { return culprit_; }

  // A file with so many locks of processes that are not there any more that it is worth asking who
  // has it open: locks stay while others share the descriptors of who took them.
  std::optional<std::string> crowded_file() const;

 private:
  struct Holder {
    std::optional<pid_t> guest;  // none: in no box, or gone
    std::uint64_t locks = 0;
  };

  FindGuest find_guest_;
  HasOpen has_open_;
  std::map<pid_t, Holder> holders_;
  std::map<pid_t, std::uint64_t> by_guest_;
  std::map<std::string, std::uint64_t> by_file_;  // of nobody who is there
  std::optional<Culprit> culprit_;
};

// Looks at the first 16,384 locks that the kernel lists, of each processor the newest first, and
// for five seconds at most: to list a million would take minutes.
struct LockLook {
  std::optional<LockCensus::Culprit> culprit;
  bool complete = true;  // otherwise the time was up
};
LockLook look_for_lock_hoarder(const std::set<pid_t>& guests);

// Whether the kernel's memory has grown by so much since it was last looked into that locks may be
// the reason.
class KernelGrowth {
 public:
  // `meminfo` is what /proc/meminfo says.
  bool worth_a_look(std::string_view meminfo);

 private:
  std::optional<std::uint64_t> least_kb_;
};

}  // namespace caisson::backend::native
