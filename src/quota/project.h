#pragma once
#include <filesystem>
#include <mutex>
#include <string>

#include "quota/quota.h"
#include "quota/record.h"

namespace caisson::quota {

// Project quotas of ext4 and xfs: the directory and all below it carry a number, and the file
// system counts and limits by it. No mount, no copy.
//
// A process with CAP_SYS_RESOURCE on the host is not bound on ext4. Processes of boxes have it
// nowhere, and being in a user namespace cannot change the number of a file. Symbolic links, fifos
// and sockets that were there before the limit are not counted.
class Project final : public Driver {
 public:
  explicit Project(const std::filesystem::path& root) : ledger_(root, "project") {}

  std::string_view name() const override { return "project"; }
  Enforced enforces() const override { return {.bytes = true, .inodes = true}; }
  void apply(const std::filesystem::path& directory, const Limit& limit) override;
  Usage usage(const std::filesystem::path& directory) const override;
  void release(const std::filesystem::path& directory, Data data) override;
  Recovery recover() override;

 private:
  void begin(Record& record, int directory);
  void restore(Record& record);

  Ledger ledger_;
  std::mutex numbers_;  // while one is picked and written down
};

// Why the directory, which lies on an ext4 or an xfs, cannot be limited; empty when it can.
std::string project_problem(const std::filesystem::path& directory);

// Where the search for a directory's number begins: far from what administrators hand out.
std::uint32_t first_project(const std::filesystem::path& directory);

}  // namespace caisson::quota
