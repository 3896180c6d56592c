#pragma once
#include "quota/volumes.h"

namespace caisson::quota {

// File systems in memory: their data is gone when the host restarts, and counts as its memory until
// then. There is nothing to open but what is mounted.
class TmpfsVolumes final : public Volumes {
 public:
  std::string_view name() const override { return "tmpfs"; }
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
};

}  // namespace caisson::quota
