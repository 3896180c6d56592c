#include <fcntl.h>

#include <algorithm>
#include <csignal>

#include "base/file.h"
#include "base/text.h"
#include "contract.h"

namespace caisson::contract {

TEST_P(BackendContract, ExecReturnsTheExitCode) {
  for (const int code : {0, 7, 255}) {
    const RunResult result = run(payload({"exit", std::to_string(code)}));
    EXPECT_EQ(result.exit.exit_code, code);
    EXPECT_EQ(result.exit.signal, 0);
    EXPECT_EQ(result.exit.oom_kills, 0u);
    EXPECT_FALSE(result.timed_out);
  }
}

TEST_P(BackendContract, ExecReportsDeathBySignalAndLeavesNoCore) {
  for (const int number : {SIGKILL, SIGTERM, SIGSEGV}) {
    const RunResult result = run(payload({"kill", std::to_string(number)}));
    EXPECT_EQ(result.exit.signal, number);
    EXPECT_FALSE(result.exit.core_dumped);
    EXPECT_FALSE(result.timed_out);
  }
}

TEST_P(BackendContract, ExecNamesAProgramThatIsNotThere) {
  for (const std::string program : {"no-such-program", "/no/such/program"}) {
    RunRequest request = payload({});
    request.process.argv = {program};
    EXPECT_EQ(code_of(backend::run(box(), std::move(request))), ErrorCode::command_not_started);
    EXPECT_THAT(last_message_, HasSubstr(program));
  }
  EXPECT_TRUE(answers(box()));
}

TEST_P(BackendContract, ExecNamesAFileThatIsNotExecutable) {
  write_host_file(workspace() / "notes.txt", "not a program");
  RunRequest request = payload({});
  request.process.argv = {"/workspace/notes.txt"};
  EXPECT_EQ(code_of(backend::run(box(), std::move(request))), ErrorCode::command_not_started);
  EXPECT_THAT(last_message_, HasSubstr("/workspace/notes.txt"));
  EXPECT_TRUE(answers(box()));
}

TEST_P(BackendContract, ExecKeepsTheTwoStreamsApart) {
  const RunResult result = run(shell("echo to out; echo to err >&2"));
  EXPECT_EQ(result.out.data, "to out\n");
  EXPECT_EQ(result.err.data, "to err\n");
}

TEST_P(BackendContract, ExecPassesEveryByteOfInputAndOutput) {
  RunRequest request = payload({"cat"});
  for (int i = 0; i < (3 << 20); ++i) request.input.push_back(static_cast<char>(i * 7 + i / 256));
  request.output_limit = 4u << 20;
  const std::string expected = request.input;
  const RunResult result = run(std::move(request));
  EXPECT_TRUE(result.out.data == expected);
  EXPECT_EQ(result.out.discarded, 0u);
  EXPECT_EQ(result.exit.exit_code, 0);
}

TEST_P(BackendContract, ExecCountsExactlyWhatExceedsTheOutputLimit) {
  RunRequest request = payload({"flood", "5242880"});
  request.output_limit = 1u << 20;
  const RunResult result = run(std::move(request));
  EXPECT_EQ(result.out.data.size(), 1u << 20);
  EXPECT_EQ(result.out.discarded, 4u << 20);
  EXPECT_TRUE(result.out.data.starts_with("000000000000000\n000000000000001\n"));
  EXPECT_TRUE(result.out.data.ends_with("000000000065535\n"));
}

TEST_P(BackendContract, ExecOfASilentCommandReturnsNothing) {
  const RunResult result = run(payload({"exit", "0"}));
  EXPECT_EQ(result.out.data, "");
  EXPECT_EQ(result.err.data, "");
}

TEST_P(BackendContract, ExecEndsStandardInputAtOnceWhenThereIsNone) {
  const RunResult result = run(payload({"cat"}));
  EXPECT_EQ(result.out.data, "");
  EXPECT_EQ(result.exit.exit_code, 0);
  EXPECT_FALSE(result.timed_out);
}

TEST_P(BackendContract, ExecToleratesACommandThatDoesNotReadItsInput) {
  RunRequest request = payload({"exit", "4"});
  request.input.assign(1u << 20, 'x');
  EXPECT_EQ(run(std::move(request)).exit.exit_code, 4);
}

TEST_P(BackendContract, ExecGivesExactlyTheEnvironmentThatWasAsked) {
  RunRequest request = payload({"print-env"});
  request.process.env = {"A=1", "B=two words", "EMPTY=", "EQUALS=a=b", "UNICODE=\xc3\xa9"};
  const RunResult result = run(std::move(request));
  EXPECT_EQ(result.out.data, "A=1\nB=two words\nEMPTY=\nEQUALS=a=b\nUNICODE=\xc3\xa9\n");
}

TEST_P(BackendContract, ExecGivesExactlyThreeDescriptors) {
  const RunResult result = run(payload({"print-fds"}));
  const auto lines = split(trim(result.out.data), '\n');
  ASSERT_EQ(lines.size(), 3u) << result.out.data;
  EXPECT_TRUE(lines[0].starts_with("0 "));
  EXPECT_TRUE(lines[1].starts_with("1 "));
  EXPECT_TRUE(lines[2].starts_with("2 "));
}

// A shell that waits for its script: how a command finds its program already started.
TEST_P(BackendContract, ExecOfACommandThatWasStartedAhead) {
  backend::ProcessSpec process = shell("read -r line <&3; exec 3<&-; . /dev/fd/4").process;
  auto [wait_end, wake_end] = make_pipe();
  UniqueFd script = memory_file("script");
  std::vector<UniqueFd> more;
  more.push_back(std::move(wait_end));
  more.emplace_back(::fcntl(script.get(), F_DUPFD_CLOEXEC, 3));
  backend::StartedCommand command = await(
      backend::start_command(box(), std::move(process), backend::Input::none, std::move(more)));
  EXPECT_TRUE(answers(box())) << "other commands run meanwhile";

  const std::string text = "exec 4<&-; echo $line from the script";
  ASSERT_EQ(::pwrite(script.get(), text.data(), text.size(), 0), ssize_t(text.size()));
  ASSERT_EQ(::write(wake_end.get(), "hello\n", 6), 6);
  command.process->put_to_use();
  const RunResult result = await(backend::run_to_end(std::move(command), {}));
  EXPECT_EQ(result.out.data, "hello from the script\n");
  EXPECT_EQ(result.err.data, "");
  EXPECT_EQ(result.exit.exit_code, 0);
}

TEST_P(BackendContract, ExecThatWasStartedAheadAndDroppedIsKilled) {
  auto [wait_end, wake_end] = make_pipe();
  std::vector<UniqueFd> more;
  more.push_back(std::move(wait_end));
  backend::StartedCommand command = await(backend::start_command(
      box(), shell("read -r line <&3").process, backend::Input::none, std::move(more)));
  EXPECT_TRUE(answers(box()));
  const auto waiting = [this] { return await(box().usage()).processes; };
  EXPECT_EQ(waiting(), 1u);
  command = {};
  while (waiting() != 0) EXPECT_TRUE(answers(box()));
}

TEST_P(BackendContract, ExecShowsItsOutputAsItComes) {
  struct Viewer : backend::OutputViewer {
    void show(backend::OutputStream stream, std::string_view bytes) override {
      (stream == backend::OutputStream::out ? out : err) += bytes;
    }
    std::string out;
    std::string err;
  };
  const auto viewer = std::make_shared<Viewer>();
  RunRequest request = shell("echo one; echo two >&2; echo three");
  request.viewer = viewer;
  request.output_limit = 2;
  const RunResult result = run(std::move(request));
  EXPECT_EQ(viewer->out, "one\nthree\n");
  EXPECT_EQ(viewer->err, "two\n");
  EXPECT_EQ(result.out.data, "on");
  EXPECT_EQ(result.out.discarded, 8u);
}

TEST_P(BackendContract, ExecIsHeldBackByAViewerThatPauses) {
  struct Viewer : backend::OutputViewer {
    void show(backend::OutputStream, std::string_view bytes) override {
      seen += bytes.size();
      pause();
    }
    std::size_t seen = 0;
  };
  const auto viewer = std::make_shared<Viewer>();
  RunRequest request = payload({"cat"});
  request.input.assign(8u << 20, 'x');
  request.viewer = viewer;
  auto running = begin(backend::run(box(), std::move(request)));
  const auto see_more = [&] {
    const std::size_t before = viewer->seen;
    while (viewer->seen == before && !running.state->done) EXPECT_TRUE(answers(box()));
    return viewer->seen;
  };
  EXPECT_LT(see_more(), 2u << 20);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(answers(box()));
  EXPECT_LT(viewer->seen, 2u << 20) << "nothing was read meanwhile";
  while (!running.state->done) {
    viewer->resume();
    see_more();
  }
  EXPECT_EQ(viewer->seen, 8u << 20);
}

TEST_P(BackendContract, ExecRunsInItsWorkingDirectoryAndMakesIt) {
  for (const std::string directory : {"/workspace", "/workspace/a/b", "/tmp/with space/c"}) {
    RunRequest request = shell("pwd");
    request.process.cwd = directory;
    EXPECT_EQ(run(std::move(request)).out.data, directory + "\n");
  }
  EXPECT_TRUE(std::filesystem::is_directory(workspace() / "a/b"));
}

TEST_P(BackendContract, ExecRefusesAWorkingDirectoryThatCannotBeMade) {
  write_host_file(workspace() / "file", "");
  RunRequest request = payload({"exit", "0"});
  request.process.cwd = "/workspace/file/below";
  EXPECT_EQ(code_of(backend::run(box(), std::move(request))), ErrorCode::command_not_started);
  EXPECT_THAT(last_message_, HasSubstr("/workspace/file"));
}

TEST_P(BackendContract, ExecPassesArgumentsUnchanged) {
  RunRequest request = shell("printf '<%s>' \"$@\"");
  for (const char* argument :
       {"sh", "plain", "two words", "it's", "\"quoted\"", "", "line\nline", "$HOME;`id`", "*"}) {
    request.process.argv.emplace_back(argument);
  }
  EXPECT_EQ(run(std::move(request)).out.data,
            "<plain><two words><it's><\"quoted\"><><line\nline><$HOME;`id`><*>");
}

TEST_P(BackendContract, ExecLooksForProgramsInThePathOfTheEnvironment) {
  RunRequest request = payload({});
  request.process.argv = {"caisson-payload", "exit", "3"};
  request.process.env = {"PATH=/nowhere:/opt/payload"};
  EXPECT_EQ(run(std::move(request)).exit.exit_code, 3);
}

TEST_P(BackendContract, ExecTakesAMegabyteOfArgumentsAndEnvironment) {
  const std::string long_text(64u << 10, 'x');
  RunRequest request = payload({"echo"});
  request.output_limit = 4u << 20;
  std::string expected;
  for (int i = 0; i < 8; ++i) {
    request.process.argv.push_back(long_text);
    request.process.env.push_back("LONG" + std::to_string(i) + "=" + long_text);
    expected += (i == 0 ? "" : " ") + long_text;
  }
  RunRequest environment = request;
  environment.process.argv = {kPayload, "print-env"};
  EXPECT_TRUE(run(std::move(request)).out.data == expected + "\n");
  EXPECT_TRUE(run(std::move(environment)).out.data.ends_with("LONG7=" + long_text + "\n"));
}

TEST_P(BackendContract, ExecIsKilledAtItsTimeoutAndKeepsWhatItWrote) {
  RunRequest request = shell("echo before; " + kPayload + " sleep 600; echo after");
  request.timeout = 2s;
  const RunResult result = run(std::move(request));
  EXPECT_TRUE(result.timed_out);
  EXPECT_EQ(result.exit.signal, SIGKILL);
  EXPECT_EQ(result.out.data, "before\n");
  EXPECT_GE(result.duration, 2s);
  EXPECT_TRUE(answers(box()));
}

TEST_P(BackendContract, ExecDoesNotWaitForABackgroundProcess) {
  const RunResult result = run(shell(kPayload + " sleep 600 & echo started; exit 5"));
  EXPECT_EQ(result.out.data, "started\n");
  EXPECT_EQ(result.exit.exit_code, 5);
  EXPECT_FALSE(result.timed_out);
}

TEST_P(BackendContract, ExecMeasuresProcessorTimeAndMemory) {
  const RunResult spin = run(payload({"spin", "0.2"}));
  EXPECT_GT(spin.exit.user_time + spin.exit.system_time, 20ms);
  EXPECT_GE(spin.duration, 200ms);
  const RunResult hog = run(payload({"hog", "16"}));
  EXPECT_EQ(hog.out.data, "held 16\n");
  EXPECT_GE(hog.exit.peak_memory_bytes, 16u << 20);
}

}  // namespace caisson::contract
