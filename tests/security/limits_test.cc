// Row I15: limits hold, an offender against memory is reported as such, and the box goes on.
#include <fcntl.h>
#include <unistd.h>

#include <csignal>

#include "base/file.h"
#include "isolation.h"

namespace caisson::security_test {
namespace {

constexpr std::int64_t kMemoryMb = 96;
constexpr std::int64_t kPids = 48;
// So little that even a busy machine gives more to a box without the limit.
constexpr double kCpus = 0.1;

class IsolationLimits : public Isolation {
 protected:
  model::BoxSpec small() const {
    model::BoxSpec box_spec = spec();
    box_spec.memory_mb = kMemoryMb;
    box_spec.pids_limit = kPids;
    box_spec.cpus = kCpus;
    return box_spec;
  }

  void expect_usable(backend::Box& box) {
    EXPECT_TRUE(box.alive());
    const backend::RunResult result = run_payload(box, {"echo", "still", "here"});
    EXPECT_EQ(result.out.data, "still here\n");
    EXPECT_EQ(result.exit.exit_code, 0);
    EXPECT_EQ(result.exit.oom_kills, 0u) << "an old kill is reported again";
  }
};

TEST_F(IsolationLimits, I15LimitsHold) {
  prove_row("I15", small(),
            {{"res_memory", std::to_string(2 * kMemoryMb)}, {"res_cpu", std::to_string(kCpus)}});
}

TEST_F(IsolationLimits, I15TheOffenderAgainstMemoryIsReportedAsOutOfMemory) {
  if (!reason_to_skip("res_memory").empty()) GTEST_SKIP() << reason_to_skip("res_memory");
  const std::unique_ptr<backend::Box> box = create_box(small());
  for (int round = 0; round < 2; ++round) {
    const backend::RunResult result = run_payload(*box, {"hog", std::to_string(4 * kMemoryMb)});
    EXPECT_EQ(result.exit.signal, SIGKILL) << result.out.data;
    EXPECT_GT(result.exit.oom_kills, 0u);
    EXPECT_FALSE(result.timed_out);
    expect_usable(*box);
  }
  EXPECT_GE(finish(box->usage()).oom_kills, 2u);
  destroy(*box);
}

// The command itself ends well, so that only the count tells.
TEST_F(IsolationLimits, I15AnOffendingChildOfACommandIsReportedAsOutOfMemory) {
  if (!reason_to_skip("res_memory").empty()) GTEST_SKIP() << reason_to_skip("res_memory");
  const std::unique_ptr<backend::Box> box = create_box(small());
  const backend::RunResult result =
      run_payload(*box, {"check", "res_memory", std::to_string(2 * kMemoryMb)});
  EXPECT_EQ(result.exit.exit_code, 0) << result.out.data;
  EXPECT_GT(result.exit.oom_kills, 0u);
  expect_usable(*box);
  destroy(*box);
}

TEST_F(IsolationLimits, I15ABoxWhoseProcessesAreUsedUpStillExecutes) {
  if (!reason_to_skip("res_fork").empty()) GTEST_SKIP() << reason_to_skip("res_fork");
  const std::unique_ptr<backend::Box> box = create_box(small());
  auto [input, hold] = make_pipe();
  auto [output, output_end] = make_pipe();
  backend::ProcessSpec bomb;
  bomb.argv = {kPayload, "fork-bomb", "400"};
  bomb.env = backend::default_environment();
  backend::Stdio stdio{std::move(input), std::move(output_end), open_file("/dev/null", O_WRONLY)};
  const std::unique_ptr<backend::Process> process =
      finish(box->start(std::move(bomb), std::move(stdio)));
  char line[64] = {};
  ASSERT_GT(::read(output.get(), line, sizeof line - 1), 0);
  EXPECT_LT(std::stoi(std::string(line).substr(sizeof "forked")), kPids) << line;
  expect_usable(*box);
  hold.reset();
  EXPECT_EQ(finish(process->wait()).exit_code, 0);
  destroy(*box);
}

}  // namespace
}  // namespace caisson::security_test
