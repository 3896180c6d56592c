#pragma once
#include <filesystem>
#include <string>

#include "quota/quota.h"
#include "quota/record.h"

namespace caisson::quota {

// Makes the directory a subvolume of its btrfs and limits that. Only bytes are bound: a subvolume
// has no number of inodes. What could make subvolumes inside it would have room without a limit:
// boxes are refused those calls (backend/native/seccomp.cc).
class Btrfs final : public Driver {
 public:
  explicit Btrfs(const std::filesystem::path& root) : ledger_(root, "btrfs") {}

  std::string_view name() const override { return "btrfs"; }
  Enforced enforces() const override { return {.bytes = true, .inodes = false}; }
  void apply(const std::filesystem::path& directory, const Limit& limit) override;
  Usage usage(const std::filesystem::path& directory) const override;
  void release(const std::filesystem::path& directory, Data data) override;
  Recovery recover() override;

 private:
  void bring_in(const std::filesystem::path& path, const Limit& limit);
  void restore(const Record& record);

  Ledger ledger_;
};

// Why the directory, which lies on a btrfs, cannot be limited; empty when it can.
std::string btrfs_problem(const std::filesystem::path& directory);

}  // namespace caisson::quota
