// Row I17: what lies about in one box is as invisible in another as what lies about on the host.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstdlib>

#include "base/file.h"
#include "base/str.h"
#include "base/text.h"
#include "isolation.h"

namespace caisson::security_test {
namespace {

class IsolationNeighbours : public Isolation {
 protected:
  // Leaves things lying about in the box until `hold_` closes; tells each check what to look for.
  CheckArguments start_fixture(backend::Box& box) {
    const std::string name = str("caisson-neighbour-", ::getpid());
    const std::string key = std::to_string(0x4e650000 + (::getpid() & 0xffff));
    const std::string file = str("/tmp/", name);
    auto [input, hold] = make_pipe();
    auto [output, output_end] = make_pipe();
    backend::ProcessSpec fixture;
    fixture.argv = {kPayload, "fixture", name, key, file};
    fixture.env = backend::default_environment();
    backend::Stdio stdio{std::move(input), std::move(output_end), open_file("/dev/null", O_WRONLY)};
    fixture_ = finish(box.start(std::move(fixture), std::move(stdio)));
    hold_ = std::move(hold);
    const std::string line = read_line(output.get());
    const std::vector<std::string_view> words = split(line, ' ');
    if (words.size() != 5 || words[0] != "ready") {
      throw std::runtime_error(str("the fixture answers: ", line));
    }
    return {{"host_abstract_unix", name},
            {"host_sysv_shm", key},
            {"host_file", file},
            {"host_namespaces", std::string(words[4])},
            {"host_loopback",
             str("127.0.0.1:", words[1], ",[::1]:", words[2], ",", words[3], ":", words[1])}};
  }

  void expect_invisible(const model::BoxSettings& box_spec) {
    const std::unique_ptr<backend::Box> owner = create_box(box_spec);
    const CheckArguments traces = start_fixture(*owner);
    // The owner finds its own things: the fixture is in force.
    for (const auto& [check, argument] : traces) {
      const backend::RunResult result = run_payload(*owner, {"check", check, argument});
      EXPECT_TRUE(result.out.data.starts_with(str(check, " allowed: "))) << result.out.data;
    }
    for (const std::string& check : checks_of("I17")) {
      const std::unique_ptr<backend::Box> neighbour = create_box(box_spec);
      prove_check(*neighbour, check, traces);
      destroy(*neighbour);
    }
    hold_.reset();
    EXPECT_EQ(finish(fixture_->wait()).exit_code, 0);
    destroy(*owner);
  }

 private:
  static std::string read_line(int fd) {
    std::string line;
    char letter = 0;
    while (::read(fd, &letter, 1) == 1 && letter != '\n') line.push_back(letter);
    return line;
  }

  UniqueFd hold_;
  std::unique_ptr<backend::Process> fixture_;
};

TEST_F(IsolationNeighbours, I17BoxesDoNotSeeEachOther) {
  expect_invisible(spec());
}

TEST_F(IsolationNeighbours, I17BoxesWithTheNetworkOnDoNotSeeEachOther) {
  if (!reason_to_skip("I12").empty()) GTEST_SKIP() << reason_to_skip("I12");
  model::BoxSettings online = spec();
  online.network = model::NetworkMode::on;
  expect_invisible(online);
}

// Everybody runs the same programs of /usr, and nobody notices.
class IsolationSharedFiles : public Isolation {
 protected:
  static constexpr const char* kProgram = "/usr/bin/env";

  struct Running {
    UniqueFd hold;
    UniqueFd output;
    std::unique_ptr<backend::Process> process;
  };
  Running start(backend::Box& box, std::vector<std::string> words, const std::string& first) {
    auto [input, hold] = make_pipe();
    auto [output, output_end] = make_pipe();
    backend::ProcessSpec program;
    program.argv = {kPayload};
    program.argv.insert(program.argv.end(), words.begin(), words.end());
    program.env = backend::default_environment();
    backend::Stdio stdio{std::move(input), std::move(output_end), open_file("/dev/null", O_WRONLY)};
    auto process = finish(box.start(std::move(program), std::move(stdio)));
    EXPECT_EQ(next_line(output.get()), first);
    return {std::move(hold), std::move(output), std::move(process)};
  }
  std::string end(Running running) {
    running.hold.reset();
    finish(running.process->wait());
    return next_line(running.output.get());
  }

  void expect_unnoticed(const model::BoxSettings& box_spec) {
    const std::unique_ptr<backend::Box> curious = create_box(box_spec);
    const std::unique_ptr<backend::Box> other = create_box(box_spec);
    Running lock = start(*curious, {"flock", kProgram}, "locked");
    Running watch = start(*curious, {"watch", "/usr/bin"}, "watching");

    EXPECT_EQ(run(*other, {kProgram, "true"}).exit.exit_code, 0);
    end(start(*other, {"flock", kProgram}, "locked"));
    EXPECT_EQ(std::system(str(kProgram, " true").c_str()), 0);
    const UniqueFd program = open_file(kProgram, O_RDONLY);
    EXPECT_EQ(::flock(program.get(), LOCK_EX | LOCK_NB), 0) << "the lock reaches the host";
    EXPECT_EQ(end(std::move(watch)), "saw 0");

    // A watch does see what its own box does.
    watch = start(*curious, {"watch", "/usr/bin"}, "watching");
    EXPECT_EQ(run(*curious, {kProgram, "true"}).exit.exit_code, 0);
    EXPECT_NE(end(std::move(watch)), "saw 0");
    end(start(*curious, {"flock", kProgram}, "refused EAGAIN"));
    end(std::move(lock));
    destroy(*curious);
    destroy(*other);
  }

 private:
  static std::string next_line(int fd) {
    std::string line;
    char letter = 0;
    while (::read(fd, &letter, 1) == 1 && letter != '\n') line.push_back(letter);
    return line;
  }
};

TEST_F(IsolationSharedFiles, I17WatchesAndLocksOnProgramsMeetNeitherTheHostNorOtherBoxes) {
  expect_unnoticed(spec());
}

TEST_F(IsolationSharedFiles, I17NorInARootOfTheBoxesOwn) {
  expect_unnoticed(spec_with_own_root());
}

TEST_F(IsolationSharedFiles, I17NorInAWritableRoot) {
  model::BoxSettings writable = spec();
  writable.read_only_rootfs = false;
  expect_unnoticed(writable);
}

}  // namespace
}  // namespace caisson::security_test
