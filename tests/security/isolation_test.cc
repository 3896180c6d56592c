// The isolation table, row by row. Each check of a row runs in a box of its own, as the first
// process of the box and again as a later one. `caisson-payload list` shows which checks belong to
// which row.
#include "isolation.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

namespace caisson::security_test {
namespace {

constexpr std::size_t kChecksInTheTable = 111;

TEST(Payload, HasAtLeastTheChecksOfTheTable) {
  EXPECT_GE(listed_checks().size(), kChecksInTheTable);
}

// A check that finds nothing outside a box either would prove nothing inside one.
TEST(Payload, FindsTheHostsTracesOutsideABox) {
  const HostSide host;
  for (const auto& [check, argument] : host.arguments()) {
    const HostRun run = run_payload_on_host({"check", check, argument});
    EXPECT_TRUE(run.output.starts_with(check + " allowed: ")) << run.output;
    EXPECT_EQ(run.exit_code, 1) << check;
  }
}

TEST_F(Isolation, I01NoPrivilege) {
  prove_row("I01");
}

TEST_F(Isolation, I02NoNewNamespaces) {
  prove_row("I02");
}

TEST_F(Isolation, I03TheMountTableIsFixed) {
  prove_row("I03");
}

TEST_F(Isolation, I04TheRootIsReadOnlyAndWithoutTheHost) {
  prove_row("I04");
}

TEST_F(Isolation, I05WritablePlacesAreBounded) {
  prove_row("I05");
}

TEST_F(Isolation, I05AWritableRootIsBoundedToo) {
  model::BoxSettings writable = spec();
  writable.read_only_rootfs = false;
  prove_row("I05", writable);
}

TEST_F(Isolation, I06DevicesAreMinimal) {
  prove_row("I06");
}

TEST_F(Isolation, I07ProcShowsOnlyTheBox) {
  prove_row("I07");
}

TEST_F(Isolation, I03ToI07HoldInARootOfItsOwn) {
  for (const char* row : {"I03", "I04", "I05", "I06", "I07"}) prove_row(row, spec_with_own_root());
}

TEST_F(Isolation, I08SysAndControlGroupsAreNotWritable) {
  prove_row("I08");
}

TEST_F(Isolation, I09LauncherAndGuestAreNotReachable) {
  prove_row("I09");
}

TEST_F(Isolation, I10NothingLeaksIn) {
  prove_row("I10");
}

TEST_F(Isolation, I11NetworkOffMeansOff) {
  prove_row("I11");
}

TEST_F(Isolation, I12NetworkOnIsNotTheHostsNetwork) {
  if (!reason_to_skip("I12").empty()) GTEST_SKIP() << reason_to_skip("I12");
  model::BoxSettings online = spec();
  online.network = model::NetworkMode::on;
  prove_row("I12", online);
}

TEST_F(Isolation, I13TheKernelSurfaceIsReduced) {
  prove_row("I13");
}

TEST_F(Isolation, I14HostStateIsUntouchable) {
  prove_row("I14");
}

TEST_F(Isolation, I16OrdinaryWorkRuns) {
  prove_row("I16");
}

TEST_F(Isolation, I16OrdinaryWorkRunsWithTheNetworkOn) {
  if (!reason_to_skip("I12").empty()) GTEST_SKIP() << reason_to_skip("I12");
  model::BoxSettings online = spec();
  online.network = model::NetworkMode::on;
  prove_row("I16", online);
}

TEST_F(Isolation, I16FilesInAMountedWorkspaceBelongToItsOwner) {
  if (!reason_to_skip("workspace_owner").empty()) GTEST_SKIP() << reason_to_skip("workspace_owner");
  constexpr uid_t kOwner = 12345;
  const TemporaryDirectory workspace{0755};
  check_syscall("chown", ::chown(workspace.path().c_str(), kOwner, kOwner));
  model::BoxSettings mounted = spec();
  mounted.host_path = workspace.path().native();
  const std::unique_ptr<backend::Box> box = create_box(mounted);
  prove_check(*box, "ok_workspace", {});
  const backend::RunResult result = run(*box, {"/bin/sh", "-c", "echo text > /workspace/made"});
  EXPECT_EQ(result.exit.exit_code, 0) << result.err.data;
  struct stat status {};
  ASSERT_EQ(::stat((workspace.path() / "made").c_str(), &status), 0);
  EXPECT_EQ(status.st_uid, kOwner);
  EXPECT_EQ(status.st_gid, kOwner);
  destroy(*box);
}

}  // namespace
}  // namespace caisson::security_test
