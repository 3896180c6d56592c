#include "backend/native/cgroup_claim.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "backend/native/cgroup.h"
#include "backend/native/cgroup_place.h"
#include "base/error.h"
#include "base/file.h"
#include "base/str.h"
#include "base/temporary_directory.h"

namespace caisson::backend::native {
namespace {

namespace fs = std::filesystem;

// Directories of owners in every hierarchy of this host, under a name of this test's own.
class CgroupClaimTest : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can make control groups anywhere";
    for (const CgroupHierarchy& hierarchy : host_.hierarchies) {
      const CgroupPlace place = choose_place(hierarchy);
      if (place.writable) paths_.push_back(place.directory / str(kOwnerPrefix, name_));
    }
    if (paths_.empty()) GTEST_SKIP() << "there is no hierarchy to make control groups in";
  }

  const CgroupHost host_ = inspect_cgroups();
  const std::string name_ = str("claim-test-", ::getpid());
  std::vector<fs::path> paths_;
};

// A process that does as it is told until it is killed.
class Child {
 public:
  template <typename Body>
  explicit Child(Body body) {
    auto [ready, tell] = make_pipe();
    pid_ = check_syscall("fork", ::fork());
    if (pid_ == 0) {
      body();
      if (::write(tell.get(), "x", 1) == 1) {
        // It has entered: descriptors of the test are not its own.
        ::close_range(3, ~0u, 0);
        for (;;) ::pause();
      }
      ::_exit(1);
    }
    tell.reset();
    char byte = 0;
    EXPECT_EQ(::read(ready.get(), &byte, 1), 1);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() { end(); }
  void end() {
    if (pid_ < 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  bool runs() const { return ::waitpid(pid_, nullptr, WNOHANG) == 0; }

 private:
  pid_t pid_ = -1;
};

TEST_F(CgroupClaimTest, ANameIsTakenOnceAndGivenBackWhole) {
  {
    const auto claim = CgroupClaim::take(host_, name_);
    ASSERT_TRUE(claim);
    for (const fs::path& path : paths_) {
      struct stat info {};
      ASSERT_EQ(::stat(path.c_str(), &info), 0) << path;
      EXPECT_EQ(info.st_mode & 0777u, 0700u) << "another user could lock it for good";
    }
    EXPECT_FALSE(CgroupClaim::take(host_, name_));
    EXPECT_TRUE(fs::exists(paths_.front())) << "who did not get it removes nothing";
  }
  for (const fs::path& path : paths_) EXPECT_FALSE(fs::exists(path)) << path;
  EXPECT_TRUE(CgroupClaim::take(host_, name_));
}

// One hierarchy where somebody is in the way is enough, and the others are left as they were.
TEST_F(CgroupClaimTest, ANameIsTakenInAllHierarchiesOrInNone) {
  const UniqueFd other = make_locked_group(paths_.back());
  ASSERT_TRUE(other);
  EXPECT_FALSE(CgroupClaim::take(host_, name_));
  EXPECT_EQ(fs::exists(paths_.front()), paths_.size() == 1);
  ASSERT_EQ(::rmdir(paths_.back().c_str()), 0);
}

// The life of an owner is seen where a runtime directory says nothing: through another mount of the
// hierarchy, in other mount and cgroup namespaces.
TEST_F(CgroupClaimTest, TheLifeOfAnOwnerIsSeenFromOtherNamespaces) {
  const auto claim = CgroupClaim::take(host_, name_);
  ASSERT_TRUE(claim);
  const TemporaryDirectory directory;
  for (const CgroupHierarchy& hierarchy : host_.hierarchies) {
    if (hierarchy.base != hierarchy.own || !hierarchy.top.empty()) continue;  // it would move
    const pid_t pid = check_syscall("fork", ::fork());
    if (pid == 0) {
      const bool unified = hierarchy.version == CgroupVersion::v2;
      const std::string options =
          unified ? "" : std::string(to_string(*hierarchy.controllers.begin()));
      if (::unshare(CLONE_NEWNS | CLONE_NEWCGROUP) < 0 ||
          ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) < 0 ||
          ::mount("none", directory.path().c_str(), unified ? "cgroup2" : "cgroup", 0,
                  options.c_str()) < 0) {
        ::_exit(77);
      }
      const fs::path seen = directory.path() / str(kOwnerPrefix, name_);
      if (!fs::exists(seen)) ::_exit(1);
      ::_exit(lock_group(seen) ? 2 : 0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(pid, &status, 0), pid);
    ASSERT_TRUE(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) continue;  // this kernel does not mount it a second time
    EXPECT_EQ(WEXITSTATUS(status), 0) << hierarchy.base;
  }
}

TEST_F(CgroupClaimTest, WhereSomebodyLivesWithoutALockNothingIsTakenAndNobodyEnds) {
  fs::create_directories(paths_.front() / "box");
  {
    const Child resident([&] { write_control_file(paths_.front() / "box" / "cgroup.procs", "0"); });
    EXPECT_FALSE(CgroupClaim::take(host_, name_));
    const auto dead = [&](std::string_view owner) { return owner != name_; };
    EXPECT_EQ(CgroupOwner::sweep(host_, dead), std::set<std::string>{name_});
    EXPECT_TRUE(resident.runs());
    EXPECT_TRUE(fs::exists(paths_.front() / "box"));
  }
  // It has ended: now it is nobody's.
  const auto claim = CgroupClaim::take(host_, name_);
  EXPECT_TRUE(claim);
  EXPECT_FALSE(fs::exists(paths_.front() / "box"));
}

TEST_F(CgroupClaimTest, SweepLeavesWhatIsLockedAlone) {
  auto claim = CgroupClaim::take(host_, name_);
  ASSERT_TRUE(claim);
  fs::create_directory(paths_.front() / "box");
  const auto nobody = [&](std::string_view owner) { return owner != name_; };
  EXPECT_TRUE(CgroupOwner::sweep(host_, nobody).empty());
  EXPECT_TRUE(fs::exists(paths_.front() / "box")) << "empty, and somebody's";
  claim.reset();
  EXPECT_TRUE(CgroupOwner::sweep(host_, nobody).empty());
  EXPECT_FALSE(fs::exists(paths_.front()));
}

TEST_F(CgroupClaimTest, ALockThatWasHandedOverHolds) {
  std::vector<UniqueFd> kept;
  {
    auto claim = CgroupClaim::take(host_, name_);
    ASSERT_TRUE(claim);
    const CgroupOwner owner(host_, name_, std::move(*claim));
    for (const int fd : owner.directory_fds()) kept.push_back(duplicate(fd, "directory"));
    const_cast<CgroupOwner&>(owner).abandon();
  }
  EXPECT_FALSE(CgroupClaim::take(host_, name_)) << "the keeper has it";
  CgroupClaim next = CgroupClaim::inherit(host_, name_, std::move(kept));
  EXPECT_FALSE(CgroupClaim::take(host_, name_));
  const UniqueFd directory = next.extract(paths_.front());
  EXPECT_TRUE(directory);
  EXPECT_TRUE(leads_to(paths_.front(), directory.get()));
  ASSERT_EQ(::rmdir(paths_.front().c_str()), 0);
}

// As the owners did that had no locks on their groups.
TEST_F(CgroupClaimTest, TheGroupsOfAnOwnerWithoutLocksAreInheritedWithAllThatLivesInThem) {
  fs::create_directories(paths_.front() / "box");
  Child resident([&] { write_control_file(paths_.front() / "box" / "cgroup.procs", "0"); });
  {
    const CgroupClaim next = CgroupClaim::inherit(host_, name_, {});
    EXPECT_FALSE(CgroupClaim::take(host_, name_));
    EXPECT_TRUE(resident.runs());
  }
  resident.end();
  const auto gone = [&](std::string_view owner) { return owner != name_; };
  EXPECT_TRUE(CgroupOwner::sweep(host_, gone).empty());
}

TEST_F(CgroupClaimTest, GroupsThatSomebodyRemovedAreMadeAgain) {
  auto claim = CgroupClaim::take(host_, name_);
  ASSERT_TRUE(claim);
  CgroupOwner owner(host_, name_, std::move(*claim));
  EXPECT_FALSE(owner.renew()) << "nothing is missing";
  ASSERT_EQ(::rmdir(paths_.back().c_str()), 0);
  EXPECT_THROW(owner.create("box", {}), SystemError);
  EXPECT_TRUE(owner.renew());
  EXPECT_EQ(owner.create("box", {.pids = 5}).open_entries().size(), paths_.size());
  EXPECT_FALSE(CgroupClaim::take(host_, name_)) << "the new ones are locked as well";
  // Where another owner came in between, both keep what they have.
  ASSERT_EQ(::rmdir(paths_.back().c_str()), 0);
  const UniqueFd other = make_locked_group(paths_.back());
  EXPECT_THROW(owner.renew(), SystemError);
  EXPECT_TRUE(owner.remove());
  EXPECT_TRUE(fs::exists(paths_.back())) << "it is not ours to remove";
  ASSERT_EQ(::rmdir(paths_.back().c_str()), 0);
}

}  // namespace
}  // namespace caisson::backend::native
