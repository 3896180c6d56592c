#include "backend/native/cgroup_place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>

#include "base/error.h"
#include "base/temporary_directory.h"

namespace caisson::backend::native {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr pid_t kSelf = 4242;

// A tree of plain files that stands in for a unified hierarchy: the root and one cgroup below it.
class UnifiedTree : public testing::Test {
 protected:
  UnifiedTree() {
    add_cgroup(root_, "cpu memory pids", "memory pids", "1\n77\n");
    scope_ = root_ / "app.scope";
    std::filesystem::create_directory(scope_);
    add_cgroup(scope_, "cpu memory pids", "", "4242\n");
    write(scope_ / "cgroup.type", "domain\n");
    hierarchy_ = {.version = CgroupVersion::v2,
                  .controllers = {Controller::memory, Controller::pids, Controller::cpu},
                  .own = scope_,
                  .base = scope_};
  }

  static void write(const std::filesystem::path& path, std::string_view content) {
    std::ofstream(path) << content;
  }
  static void add_cgroup(const std::filesystem::path& path, std::string_view controllers,
                         std::string_view enabled, std::string_view processes) {
    write(path / "cgroup.controllers", controllers);
    write(path / "cgroup.subtree_control", enabled);
    write(path / "cgroup.procs", processes);
  }
  static std::vector<Controller> usable(const CgroupPlace& place) {
    std::vector<Controller> found;
    for (const ControllerState& state : place.controllers) {
      if (state.usable) found.push_back(state.controller);
    }
    return found;
  }
  static const ControllerState& state_of(const CgroupPlace& place, Controller controller) {
    for (const ControllerState& state : place.controllers) {
      if (state.controller == controller) return state;
    }
    throw Error(ErrorCode::internal_error, "no such controller");
  }

  const TemporaryDirectory temporary_{0755};
  const std::filesystem::path root_ = temporary_.path();
  std::filesystem::path scope_;
  CgroupHierarchy hierarchy_;
};

TEST_F(UnifiedTree, AProcessAloneInItsCgroupLeavesItToEnableControllers) {
  const CgroupPlace place = choose_place(hierarchy_, kSelf);
  EXPECT_EQ(place.directory, scope_);
  EXPECT_TRUE(place.writable);
  EXPECT_TRUE(place.leave_first);
  EXPECT_THAT(place.enable, ElementsAre(Controller::memory, Controller::pids, Controller::cpu));
  EXPECT_THAT(usable(place), ElementsAre(Controller::memory, Controller::pids, Controller::cpu));
}

TEST_F(UnifiedTree, AProcessStaysWhereControllersAreEnabledAlready) {
  write(scope_ / "cgroup.subtree_control", "cpu memory pids\n");
  write(scope_ / "cgroup.procs", "");
  hierarchy_.own = scope_ / "caisson-main.home";
  const CgroupPlace place = choose_place(hierarchy_, kSelf);
  EXPECT_FALSE(place.leave_first);
  EXPECT_THAT(place.enable, IsEmpty());
  EXPECT_EQ(usable(place).size(), 3u);
}

TEST_F(UnifiedTree, OtherProcessesInTheCgroupKeepControllersFromBeingEnabled) {
  write(scope_ / "cgroup.procs", "4242\n4300\n");
  const CgroupPlace place = choose_place(hierarchy_, kSelf);
  EXPECT_THAT(usable(place), IsEmpty());
  EXPECT_FALSE(place.leave_first);
  const ControllerState& memory = state_of(place, Controller::memory);
  EXPECT_THAT(memory.detail, HasSubstr("other processes live in"));
  EXPECT_THAT(memory.fix, HasSubstr("--scope -p Delegate=yes"));
}

TEST_F(UnifiedTree, TheRootOfTheHierarchyTakesOwnersWhenTheOwnCgroupCannot) {
  write(scope_ / "cgroup.procs", "4242\n4300\n");
  hierarchy_.top = root_;
  const CgroupPlace place = choose_place(hierarchy_, kSelf);
  EXPECT_EQ(place.directory, root_);
  EXPECT_FALSE(place.leave_first) << "the root may hold processes and controllers";
  EXPECT_THAT(place.enable, ElementsAre(Controller::cpu)) << "the others are enabled";
  EXPECT_EQ(usable(place).size(), 3u);
}

TEST_F(UnifiedTree, TheOwnCgroupIsPreferredWhenItDoesAsWellAsTheRoot) {
  hierarchy_.top = root_;
  EXPECT_EQ(choose_place(hierarchy_, kSelf).directory, scope_);
}

TEST_F(UnifiedTree, AControllerThatIsNotDelegatedIsMissingAlone) {
  write(scope_ / "cgroup.controllers", "memory pids\n");
  const CgroupPlace place = choose_place(hierarchy_, kSelf);
  EXPECT_THAT(usable(place), ElementsAre(Controller::memory, Controller::pids));
  EXPECT_THAT(state_of(place, Controller::cpu).detail,
              HasSubstr("cpu controller is not delegated"));
  EXPECT_THAT(state_of(place, Controller::cpu).fix, HasSubstr("Delegate="));
}

TEST_F(UnifiedTree, AControllerTheKernelLacksIsNamedAsSuch) {
  write(scope_ / "cgroup.controllers", "cpu pids\n");
  write(root_ / "cgroup.controllers", "cpu pids\n");
  hierarchy_.top = root_;
  const CgroupPlace place = choose_place(hierarchy_, kSelf);
  EXPECT_THAT(state_of(place, Controller::memory).detail, HasSubstr("the kernel offers no memory"));
  EXPECT_THAT(state_of(place, Controller::memory).fix, HasSubstr("cgroup_enable=memory"));
}

TEST_F(UnifiedTree, AHierarchyWithoutControllersIsStillAPlace) {
  hierarchy_.controllers.clear();
  write(scope_ / "cgroup.procs", "4242\n4300\n");
  const CgroupPlace place = choose_place(hierarchy_, kSelf);
  EXPECT_TRUE(place.writable);
  EXPECT_FALSE(place.leave_first);
}

TEST_F(UnifiedTree, AnOrdinaryUserIsToldToAskForADelegatedScope) {
  const uid_t user = ::geteuid();
  if (user != 0) {
    GTEST_SKIP() << "needs root, to become an ordinary user";
  }
  ASSERT_EQ(::seteuid(65534), 0);
  const CgroupPlace place = choose_place(hierarchy_, kSelf);
  CgroupHierarchy v1{.controllers = {Controller::memory}, .own = scope_, .base = scope_};
  const CgroupPlace on_v1 = choose_place(v1, kSelf);
  ASSERT_EQ(::seteuid(user), 0);
  EXPECT_FALSE(place.writable);
  EXPECT_THAT(state_of(place, Controller::memory).detail, HasSubstr("Permission denied"));
  EXPECT_THAT(state_of(place, Controller::memory).fix,
              HasSubstr("systemd-run --user --scope -p Delegate=yes"));
  EXPECT_THAT(state_of(on_v1, Controller::memory).fix, HasSubstr("as root"));
}

TEST(ReportLimits, NamesEveryLimitThatNothingEnforces) {
  const std::vector<model::LayerReport> reports = report_limits(CgroupHost{});
  ASSERT_EQ(reports.size(), 3u);
  EXPECT_EQ(reports[0].layer, model::Layer::memory_limit);
  EXPECT_EQ(reports[1].layer, model::Layer::pids_limit);
  EXPECT_EQ(reports[2].layer, model::Layer::cpu_limit);
  for (const model::LayerReport& report : reports) {
    EXPECT_EQ(report.state, model::LayerState::missing);
    EXPECT_THAT(report.fix, HasSubstr("mount -t cgroup2"));
  }
}

}  // namespace
}  // namespace caisson::backend::native
