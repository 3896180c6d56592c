#pragma once
#include <filesystem>
#include <memory>
#include <string>

#include "quota/quota.h"
#include "quota/record.h"
#include "quota/volumes.h"

namespace caisson::quota {

// Limits a directory by mounting a file system of that size on it. What the directory held is
// copied first and removed when the copy is mounted and on the disk; at every moment one of the two
// is whole, and the record says which.
class Mounted final : public Driver {
 public:
  // Records are kept in `root`, with the images.
  Mounted(const std::filesystem::path& root, std::unique_ptr<Volumes> volumes);

  std::string_view name() const override { return volumes_->name(); }
  Enforced enforces() const override { return {.bytes = true, .inodes = true}; }
  void apply(const std::filesystem::path& directory, const Limit& limit) override;
  Usage usage(const std::filesystem::path& directory) const override;
  void release(const std::filesystem::path& directory, Data data) override;
  Recovery recover() override;

 private:
  void bring_in(const std::filesystem::path& path, const Limit& limit);
  void mount(const Volume& volume, const Record& record);
  void restore(Record& record, std::vector<std::string>& problems);
  void finish_emptying(Record& record);
  void rebuild(const Record& record, const Limit& limit);
  void give_back(Record& record);
  void unmount_if_mounted(const Record& record);
  void finish_returning(const Record& record);

  std::unique_ptr<Volumes> volumes_;
  Ledger ledger_;
};

}  // namespace caisson::quota
