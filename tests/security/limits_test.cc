// Row I15: limits hold, an offender against memory is reported as such, and the box goes on.
#include <fcntl.h>
#include <unistd.h>

#include <csignal>

#include "base/error.h"
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
  model::BoxSettings small() const {
    model::BoxSettings box_spec = spec();
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
            {{"res_memory", std::to_string(2 * kMemoryMb)},
             {"res_tcp_buffers", std::to_string(2 * kMemoryMb)},
             {"res_cpu", std::to_string(kCpus)}});
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

// A box that holds what any program may ask the kernel for, and too much of it.
class IsolationHoards : public Isolation {
 protected:
  struct Holder {
    UniqueFd hold;
    UniqueFd output;
    std::unique_ptr<backend::Process> process;
  };
  Holder hold(backend::Box& box, std::vector<std::string> words) {
    auto [input, hold] = make_pipe();
    auto [output, output_end] = make_pipe();
    backend::ProcessSpec holder;
    holder.argv = {kPayload};
    holder.argv.insert(holder.argv.end(), words.begin(), words.end());
    holder.env = backend::default_environment();
    backend::Stdio stdio{std::move(input), std::move(output_end), open_file("/dev/null", O_WRONLY)};
    auto process = finish(box.start(std::move(holder), std::move(stdio)));
    return {std::move(hold), std::move(output), std::move(process)};
  }

  void expect_ended(const std::vector<std::string>& words, std::string_view reason) {
    const std::unique_ptr<backend::Box> neighbour = create_box(spec());
    Holder modest = hold(*neighbour, {"hold-locks", "/tmp/locked", "1000"});
    char line[16] = {};
    ASSERT_GT(::read(modest.output.get(), line, sizeof line - 1), 0);
    EXPECT_STREQ(line, "held\n");

    const std::unique_ptr<backend::Box> hoarder = create_box(spec());
    Holder immodest = hold(*hoarder, words);
    try {
      finish(immodest.process->wait());
      FAIL() << "the box was not ended";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::box_lost);
      EXPECT_NE(std::string_view(error.what()).find(reason), std::string_view::npos)
          << error.what();
    }
    destroy(*hoarder);
    EXPECT_TRUE(neighbour->alive());
    modest.hold.reset();
    EXPECT_EQ(finish(modest.process->wait()).exit_code, 0);
    destroy(*neighbour);
  }
};

TEST_F(IsolationHoards, I15ABoxThatFillsTheKernelWithFileLocksIsEnded) {
  expect_ended({"hold-locks", "/tmp/locked", "1000000"}, "file locks");
}

TEST_F(IsolationHoards, I15SoIsOneWhoseLocksOutliveTheProcessThatTookThem) {
  expect_ended({"hold-locks", "/tmp/locked", "1000000", "orphan"}, "file locks");
}

TEST_F(IsolationHoards, I15ABoxThatFillsTheKernelWithNetlinkAnswersIsEnded) {
  expect_ended({"hold-netlink", "1000"}, "netlink");
}

}  // namespace
}  // namespace caisson::security_test
