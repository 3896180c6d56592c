#include "quota/choose.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include "quota/scene_for_test.h"

namespace caisson::quota {
namespace {

std::vector<Candidate> candidates(const std::vector<std::string>& reasons) {
  const char* names[] = {"project", "btrfs", "loop", "tmpfs"};
  std::vector<Candidate> result;
  for (std::size_t at = 0; at < reasons.size(); ++at) {
    result.push_back(
        {.name = names[at], .enforces = {.bytes = true, .inodes = at != 1}, .why = reasons[at]});
  }
  return result;
}

TEST(Decide, TakesTheFirstThatCanBeUsed) {
  std::vector<Candidate> all = candidates({"no", "", "", ""});
  EXPECT_EQ(decide(all, {}), 1u);
  all = candidates({"", "", "", ""});
  EXPECT_EQ(decide(all, {}), 0u);
}

TEST(Decide, PassesOverADriverThatDoesNotBindInodesWhenTheyMustBe) {
  std::vector<Candidate> all = candidates({"no", "", "", ""});
  EXPECT_EQ(decide(all, {.inodes_required = true}), 2u);
  EXPECT_EQ(all[1].why, "it does not bind the number of files, which is required");
}

TEST(Decide, TakesNoneWhenNoneCanBeUsed) {
  std::vector<Candidate> all = candidates({"no", "no", "no", "no"});
  EXPECT_EQ(decide(all, {}), all.size());
}

TEST(HostAdmin, IsWhoHasTheCapabilityOutsideOfUserNamespaces) {
  const std::string all = "Name:\tx\nCapPrm:\t0\nCapEff:\t000001ffffffffff\nCapBnd:\t0\n";
  const std::string none = "Name:\tx\nCapEff:\t0000000000000000\n";
  const std::string others = "CapEff:\t000001ffffdfffff\n";
  const std::string host = "         0          0 4294967295\n";
  EXPECT_TRUE(is_host_admin(all, host));
  EXPECT_FALSE(is_host_admin(none, host));
  EXPECT_FALSE(is_host_admin(others, host));
  EXPECT_FALSE(is_host_admin(all, "         0       1000          1\n"));
  EXPECT_FALSE(is_host_admin(all, ""));
  EXPECT_FALSE(is_host_admin("", host));
}

TEST(Choose, SaysOfEveryDriverItPassesOverWhyAndWhatWouldMendIt) {
  if (const std::string reason = reason_to_skip("loop"); !reason.empty()) GTEST_SKIP() << reason;
  const TemporaryDirectory directory;
  const Choice choice = choose(directory / "not/there/yet", {.state = directory / "state/quota"});
  ASSERT_EQ(choice.candidates.size(), 4u);
  ASSERT_NE(choice.driver, nullptr);
  for (const Candidate& candidate : choice.candidates) {
    if (candidate.name == choice.driver->name()) {
      EXPECT_EQ(candidate.why, "");
      EXPECT_EQ(candidate.enforces, choice.enforces());
      break;
    }
    EXPECT_NE(candidate.why, "") << candidate.name;
    EXPECT_NE(candidate.fix, "") << candidate.name;
  }
  EXPECT_EQ(contents(directory.path()).size(), 0u);  // looked at, not changed
}

TEST(Choose, GivesMemoryOnlyToWhoeverAllowsIt) {
  if (const std::string reason = reason_to_skip("tmpfs"); !reason.empty()) GTEST_SKIP() << reason;
  const TemporaryDirectory directory;
  EXPECT_NE(choose(directory.path(), {.state = directory.path()}).candidates.back().why, "");
  EXPECT_EQ(choose(directory.path(), {.state = directory.path(), .volatile_allowed = true})
                .candidates.back()
                .why,
            "");
}

TEST(Choose, FindsNothingForAnOrdinaryUserAndSaysSo) {
  if (const std::string reason = reason_to_skip("tmpfs"); !reason.empty()) GTEST_SKIP() << reason;
  const pid_t child = check_syscall("fork", ::fork());
  if (child == 0) {
    bool right = ::setresuid(65534, 65534, 65534) == 0;
    try {
      const Choice choice = choose("/tmp", {.state = "/tmp", .volatile_allowed = true});
      right = right && !choice.driver && choice.candidates.size() == 4;
      for (const Candidate& candidate : choice.candidates) {
        right = right && candidate.why.find("CAP_SYS_ADMIN") != std::string::npos &&
                candidate.fix.find("root") != std::string::npos;
      }
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      right = false;
    }
    ::_exit(right ? 0 : 1);
  }
  int status = 0;
  check_syscall("waitpid", ::waitpid(child, &status, 0));
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace caisson::quota
