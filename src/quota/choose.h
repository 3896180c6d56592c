#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "quota/quota.h"

namespace caisson::quota {

struct ChooseOptions {
  std::filesystem::path state;    // for records and images; nothing is made there before apply()
  bool volatile_allowed = false;  // the operator accepts that data is gone when the host restarts
  bool inodes_required = false;   // a driver that does not bind inodes will not do
};

// What was found out about one driver.
struct Candidate {
  std::string name;
  Enforced enforces;
  std::string why;  // it cannot be used; empty when it can
  std::string fix;  // the step that would change that; empty when there is none
};

// The drivers in the order of preference, and the first that can be used.
struct Choice {
  std::unique_ptr<Driver> driver;  // null: none
  std::vector<Candidate> candidates;

  // Of the driver; nothing without one.
  Enforced enforces() const { return driver ? driver->enforces() : Enforced{}; }
};

// Which driver can limit directories below `root`, a path that need not exist yet. What is on the
// host is looked at and not changed.
Choice choose(const std::filesystem::path& root, const ChooseOptions& options);

// The index of the first usable one that the options allow, candidates.size() when there is none.
// Others that the options rule out get the reason.
std::size_t decide(std::vector<Candidate>& candidates, const ChooseOptions& options);

// Whether a process with this /proc/self/status and uid_map has CAP_SYS_ADMIN on the host itself.
bool is_host_admin(std::string_view status, std::string_view uid_map);

}  // namespace caisson::quota
