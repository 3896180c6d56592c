#pragma once
#include <filesystem>

namespace caisson::store {

// A file of nothing, to be given up when a full disk would not even let records be removed: the
// removal is first written to the log, and what the log held before it to the database. Best
// effort: without it a store works, except on a full disk.
class Reserve {
 public:
  explicit Reserve(std::filesystem::path file);

  bool release();  // false when there is none
  void refill();   // when there is room again; costs nothing while it is there

 private:
  std::filesystem::path file_;
  bool held_ = false;
};

}  // namespace caisson::store
