#pragma once
#include <filesystem>
#include <string>

#include "quota/volumes.h"

namespace caisson::quota {

// Sparse ext4 images on loop devices, one a directory, below `root`. An image has twice the room
// that its limit gives, and files next to the data, where no mount shows them, that take what is
// too much: the limit is exact to the inode and to 0.4 % of the bytes, and can be changed while
// boxes write, up to that room. The host's disk holds only what was written; it may be promised to
// several directories at once.
class LoopVolumes final : public Volumes {
 public:
  explicit LoopVolumes(std::filesystem::path root) : root_(std::move(root)) {}

  std::string_view name() const override { return "loop"; }
  Volume make(const Record& record) override;
  void adopt(const Record& record) override;
  void remove_draft(const Record& record) override;
  bool exists(const Record& record) const override;
  Volume open(const Record& record) override;
  bool is_mounted(const Record& record) const override;
  bool resize(const Record& record, const Limit& limit) override;
  Volume take_off(const Record& record) override;
  void remove(const Record& record) override;
  void sweep(const std::set<std::string>& known_ids) override;
  std::filesystem::path staging(const Record& record) const override;

 private:
  std::filesystem::path image(const Record& record) const;
  std::filesystem::path draft(const Record& record) const;

  std::filesystem::path root_;
};

}  // namespace caisson::quota
