#include "backend/native/cgroup_host.h"

#include <gtest/gtest.h>

namespace caisson::backend::native {
namespace {

using Set = std::set<Controller>;

// Debian 9, systemd: v1 only, cpu and cpuacct in one hierarchy.
constexpr std::string_view kV1Mounts =
    "25 18 0:22 / /sys/fs/cgroup ro,nosuid,nodev,noexec shared:9 - tmpfs tmpfs ro,mode=755\n"
    "26 25 0:23 / /sys/fs/cgroup/systemd rw,nosuid,nodev,noexec,relatime shared:10 - cgroup cgroup "
    "rw,xattr,release_agent=/lib/systemd/systemd-cgroups-agent,name=systemd\n"
    "28 25 0:25 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid,nodev,noexec,relatime shared:13 - cgroup "
    "cgroup "
    "rw,cpu,cpuacct\n"
    "29 25 0:26 / /sys/fs/cgroup/memory rw,nosuid,nodev,noexec,relatime shared:14 - cgroup cgroup "
    "rw,memory\n"
    "30 25 0:27 / /sys/fs/cgroup/pids rw,nosuid,nodev,noexec,relatime shared:15 - cgroup cgroup "
    "rw,pids\n"
    "31 25 0:28 / /sys/fs/cgroup/net_cls,net_prio rw,relatime shared:16 - cgroup cgroup "
    "rw,net_cls,net_prio\n";
constexpr std::string_view kV1Memberships =
    "9:net_cls,net_prio:/\n"
    "5:pids:/system.slice/caisson.service\n"
    "4:memory:/system.slice/caisson.service\n"
    "3:cpu,cpuacct:/system.slice/caisson.service\n"
    "1:name=systemd:/system.slice/caisson.service\n";

TEST(InspectCgroups, FindsTheOwnCgroupOfEveryV1Controller) {
  const CgroupHost host = inspect_cgroups(kV1Mounts, kV1Memberships);
  EXPECT_EQ(host.mode, CgroupMode::v1);
  EXPECT_EQ(host.find_unified(), nullptr);
  ASSERT_EQ(host.hierarchies.size(), 3u);
  EXPECT_EQ(host.find(Controller::memory)->own,
            "/sys/fs/cgroup/memory/system.slice/caisson.service");
  EXPECT_EQ(host.find(Controller::pids)->own, "/sys/fs/cgroup/pids/system.slice/caisson.service");
  EXPECT_EQ(host.find(Controller::memory)->top, "/sys/fs/cgroup/memory");
}

TEST(InspectCgroups, GivesControllersMountedTogetherOneDirectory) {
  const CgroupHost host = inspect_cgroups(kV1Mounts, kV1Memberships);
  EXPECT_EQ(host.find(Controller::cpu), host.find(Controller::cpuacct));
  EXPECT_EQ(host.find(Controller::cpu)->controllers, (Set{Controller::cpu, Controller::cpuacct}));
  EXPECT_EQ(host.find(Controller::cpu)->own,
            "/sys/fs/cgroup/cpu,cpuacct/system.slice/caisson.service");
}

TEST(InspectCgroups, FindsTheUnifiedHierarchyOfAHybridHostAlthoughItHasNoControllers) {
  const std::string mounts = std::string(kV1Mounts) +
                             "27 25 0:24 / /sys/fs/cgroup/unified rw,nosuid,nodev,noexec,relatime "
                             "shared:11 - cgroup2 cgroup2 rw,nsdelegate\n";
  const std::string memberships =
      std::string(kV1Memberships) + "0::/system.slice/caisson.service\n";
  const CgroupHost host = inspect_cgroups(mounts, memberships);
  EXPECT_EQ(host.mode, CgroupMode::hybrid);
  ASSERT_NE(host.find_unified(), nullptr);
  EXPECT_EQ(host.find_unified()->own, "/sys/fs/cgroup/unified/system.slice/caisson.service");
  EXPECT_TRUE(host.find_unified()->controllers.empty());
  EXPECT_EQ(host.find(Controller::memory)->version, CgroupVersion::v1);
}

// Every controller in a hierarchy of its own, the process in another cgroup for each.
constexpr std::string_view kSeparateMounts =
    "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
    "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n"
    "33 31 0:30 / /sys/fs/cgroup/cpuacct rw,relatime - cgroup cgroup rw,cpuacct\n"
    "34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
    "39 31 0:36 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids\n";
constexpr std::string_view kSeparateMemberships =
    "8:pids:/\n4:memory:/group/one\n3:cpuset:/\n2:cpuacct:/\n1:cpu:/\n";

TEST(InspectCgroups, TakesAHierarchyForAccountingOnlyWhenNothingElseCountsProcessorTime) {
  const CgroupHost v1 = inspect_cgroups(kSeparateMounts, kSeparateMemberships);
  ASSERT_NE(v1.find(Controller::cpuacct), nullptr);
  EXPECT_EQ(v1.hierarchies.size(), 4u);
  EXPECT_EQ(v1.find(Controller::cpu)->own, "/sys/fs/cgroup/cpu");
  EXPECT_EQ(v1.find(Controller::cpu)->top, "") << "it is the process's own";
  EXPECT_EQ(v1.find(Controller::memory)->own, "/sys/fs/cgroup/memory/group/one");

  const std::string mounts = std::string(kSeparateMounts) +
                             "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
  const CgroupHost hybrid = inspect_cgroups(mounts, std::string(kSeparateMemberships) + "0::/\n");
  EXPECT_EQ(hybrid.find(Controller::cpuacct), nullptr);
  EXPECT_EQ(hybrid.hierarchies.size(), 4u);
}

TEST(InspectCgroups, FindsTheScopeOfASystemdUserSessionOnV2) {
  const CgroupHost host = inspect_cgroups(
      "35 24 0:30 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:4 - cgroup2 cgroup2 "
      "rw,nsdelegate,memory_recursiveprot\n",
      "0::/user.slice/user-1000.slice/user@1000.service/app.slice/run-u12.scope\n");
  EXPECT_EQ(host.mode, CgroupMode::v2);
  ASSERT_EQ(host.hierarchies.size(), 1u);
  const CgroupHierarchy& unified = host.hierarchies.front();
  EXPECT_EQ(unified.own,
            "/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/app.slice/run-u12.scope");
  EXPECT_EQ(unified.base, unified.own);
  EXPECT_EQ(unified.top, "/sys/fs/cgroup");
  EXPECT_EQ(unified.controllers, (Set{Controller::memory, Controller::pids, Controller::cpu}));
}

TEST(InspectCgroups, FindsTheRootOfAContainerWithAPrivateCgroupNamespace) {
  const CgroupHost host = inspect_cgroups(
      "612 598 0:28 / /sys/fs/cgroup ro,nosuid,nodev,noexec,relatime - cgroup2 cgroup rw\n",
      "0::/\n");
  EXPECT_EQ(host.mode, CgroupMode::v2);
  EXPECT_EQ(host.find(Controller::pids)->own, "/sys/fs/cgroup");
}

TEST(InspectCgroups, TakesTheRootOfAMountOffTheOwnPath) {
  const CgroupHost host = inspect_cgroups(
      "712 700 0:33 /docker/4f1b /sys/fs/cgroup/memory ro,nosuid - cgroup cgroup rw,memory\n"
      "713 700 0:34 /docker/4f1b /sys/fs/cgroup/pids ro,nosuid - cgroup cgroup rw,pids\n",
      "5:pids:/docker/4f1b/inner\n4:memory:/docker/4f1b\n");
  EXPECT_EQ(host.find(Controller::memory)->own, "/sys/fs/cgroup/memory");
  EXPECT_EQ(host.find(Controller::pids)->own, "/sys/fs/cgroup/pids/inner");
  EXPECT_EQ(host.find(Controller::pids)->top, "") << "the mount does not show the hierarchy's root";
}

TEST(InspectCgroups, DoesNotTakeAnotherCgroupWithTheSameBeginningForTheMountsRoot) {
  const CgroupHost host =
      inspect_cgroups("712 700 0:33 /docker/4f /cg rw - cgroup2 cgroup2 rw\n", "0::/docker/4f1b\n");
  EXPECT_EQ(host.mode, CgroupMode::v2);
  EXPECT_TRUE(host.hierarchies.empty());
}

TEST(InspectCgroups, FollowsPathsThatClimbOutOfTheCgroupNamespaceOnlyWhereAMountShowsThem) {
  const auto own = [](std::string_view root, std::string_view path) {
    const std::string mounts = "41 31 0:38 " + std::string(root) + " /cg rw - cgroup2 cgroup2 rw\n";
    const CgroupHost host = inspect_cgroups(mounts, "0::" + std::string(path) + "\n");
    return host.hierarchies.empty() ? std::string() : host.hierarchies.front().own.native();
  };
  EXPECT_EQ(own("/..", "/../sibling"), "/cg/sibling");
  EXPECT_EQ(own("/../..", "/../.."), "/cg");
  EXPECT_EQ(own("/", "/../sibling"), "");
  EXPECT_EQ(own("/..", "/"), "") << "the name of the namespace's root is not known";
  EXPECT_EQ(own("/..", "/../.."), "");
}

TEST(InspectCgroups, UndoesTheEscapesOfMountinfo) {
  const CgroupHost host = inspect_cgroups(
      R"(41 31 0:38 /a\040b /mnt/my\040cgroups\134x\1 rw - cgroup2 cgroup2 rw)", "0::/a b/c:d\n");
  EXPECT_EQ(host.find_unified()->own, R"(/mnt/my cgroups\x\1/c:d)");
}

TEST(InspectCgroups, PrefersAWritableMountAmongSeveralOfOneHierarchy) {
  const CgroupHost host = inspect_cgroups(
      "41 31 0:38 / /read-only ro - cgroup2 cgroup2 rw\n"
      "42 31 0:38 / /writable rw - cgroup2 cgroup2 rw\n"
      "43 31 0:38 /elsewhere /other rw - cgroup2 cgroup2 rw\n",
      "0::/own\n");
  EXPECT_EQ(host.find_unified()->own, "/writable/own");
}

TEST(InspectCgroups, PassesOverAMountThatAnotherOneCovers) {
  const CgroupHost host = inspect_cgroups(
      "41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
      "42 41 0:50 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
      "43 42 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
      "0::/own\n");
  EXPECT_EQ(host.find_unified()->own, "/sys/fs/cgroup/unified/own");
}

TEST(InspectCgroups, FindsNothingWhereNothingIsMounted) {
  const CgroupHost host = inspect_cgroups("22 1 0:20 / /proc rw - proc proc rw\n\n", "0::/\n");
  EXPECT_EQ(host.mode, CgroupMode::none);
  EXPECT_TRUE(host.hierarchies.empty());
  EXPECT_EQ(to_string(host.mode), "none");
}

TEST(InspectCgroups, DoesNotOfferToV2WhatAnUnmountedV1HierarchyHolds) {
  const CgroupHost host =
      inspect_cgroups("41 31 0:38 / /cg rw - cgroup2 cgroup2 rw\n", "4:memory:/\n0::/\n");
  EXPECT_EQ(host.find(Controller::memory), nullptr);
  EXPECT_EQ(host.find_unified()->controllers, (Set{Controller::pids, Controller::cpu}));
}

TEST(InspectCgroups, PlacesOwnersBesideTheHomeThisProcessLivesIn) {
  const CgroupHost host = inspect_cgroups("41 31 0:38 / /cg rw - cgroup2 cgroup2 rw\n",
                                          "0::/caisson.service/caisson-main.home\n", "/prefix");
  EXPECT_EQ(host.find_unified()->own, "/prefix/cg/caisson.service/caisson-main.home");
  EXPECT_EQ(host.find_unified()->base, "/prefix/cg/caisson.service");
}

TEST(InspectCgroups, DescribesThisProcess) {
  const CgroupHost host = inspect_cgroups();
  for (const CgroupHierarchy& hierarchy : host.hierarchies) {
    EXPECT_TRUE(std::filesystem::exists(hierarchy.own / "cgroup.procs")) << hierarchy.own;
  }
}

}  // namespace
}  // namespace caisson::backend::native
