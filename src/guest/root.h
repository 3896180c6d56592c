#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "wire/plan.h"

namespace caisson::guest {

// Builds the root file system of a box, or of the launcher itself, one step at a time, in the
// calling process's mount namespace. Targets are resolved inside the root being built and never
// leave it, whatever symbolic links an image holds. Throws StepError.
class Root {
 public:
  explicit Root(const std::vector<UniqueFd>& fds);

  void apply(const wire::NewRoot& step);
  void apply(const wire::BindRoot& step);
  void apply(const wire::MakeDirectory& step);
  void apply(const wire::MakeSymlink& step);
  void apply(const wire::MakeFile& step);
  void apply(const wire::BindHost& step);
  void apply(const wire::BindTemplate& step);
  void apply(const wire::BindInside& step);
  void apply(const wire::MakeTmpfs& step);
  void apply(const wire::AttachMount& step);
  void apply(const wire::MakeScratch& step);
  void apply(const wire::BindScratch& step);
  void apply(const wire::MountOverlay& step);
  void apply(const wire::MountProc& step);
  void apply(const wire::MountTerminals& step);
  void apply(const wire::MaskPath& step);
  void apply(const wire::MakeReadOnly& step);
  void apply(const wire::PivotRoot& step);
  void apply(const wire::Unmount& step);
  void apply(const wire::OwnInodes& step);

  // Takes away the places that only the building needed.
  void finish();

 private:
  int fd(wire::FdIndex index, const std::string& what) const;
  UniqueFd target(const std::string& path) const;
  UniqueFd make_target(const std::string& path, bool directory) const;
  void attach(int mount, const std::string& path) const;
  void become_root(UniqueFd mount);
  UniqueFd clone_scratch(const std::string& name);
  UniqueFd empty_directory(const std::string& what) const;

  const std::vector<UniqueFd>& fds_;
  UniqueFd root_;             // the root being built; where targets are looked up
  UniqueFd scratch_;          // the scratch file system; may be the same as root_
  UniqueFd below_proc_;       // what proc is mounted on; masks may show it
  bool root_is_new_ = false;  // root_ is mounted over "/" and waits for PivotRoot
  bool scratch_attached_ = false;
  bool scratch_is_root_ = false;
  std::uint32_t owner_ = 0;  // of what is made in a new root without an owner of its own
};

}  // namespace caisson::guest
