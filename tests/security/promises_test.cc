// What a payload does to the processes beside it delays nobody who waits for an answer.
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <csignal>

#include "base/error.h"
#include "base/file.h"
#include "isolation.h"

namespace caisson::security_test {
namespace {

using namespace std::chrono_literals;

class Promises : public Isolation {
 protected:
  static backend::ProcessSpec program_of(std::vector<std::string> words) {
    backend::ProcessSpec program;
    program.argv = std::move(words);
    program.argv.insert(program.argv.begin(), kPayload);
    program.env = backend::default_environment();
    return program;
  }

  // A payload that has said its first word.
  struct Running {
    std::unique_ptr<backend::Process> process;
    UniqueFd out;
  };
  Running begin(backend::Box& box, std::vector<std::string> words) {
    auto [output, output_end] = make_pipe();
    backend::ProcessSpec program = program_of(std::move(words));
    backend::Stdio stdio{open_file("/dev/null", O_RDONLY), std::move(output_end),
                         open_file("/dev/null", O_WRONLY)};
    Running running{finish(box.start(std::move(program), std::move(stdio))), std::move(output)};
    char word[64];
    EXPECT_GT(::read(running.out.get(), word, sizeof word), 0);
    return running;
  }

  backend::RunResult run_for(backend::Box& box, std::chrono::milliseconds timeout,
                             std::vector<std::string> words) {
    backend::RunRequest request;
    request.process = program_of(std::move(words));
    request.timeout = timeout;
    return finish(backend::run(box, std::move(request)));
  }
};

TEST_F(Promises, ATimeoutHoldsAlthoughAPayloadStopsWhatIsBeingStarted) {
  const std::unique_ptr<backend::Box> box = create_box(spec());
  const Running stopper = begin(*box, {"stop-others"});
  for (int i = 0; i < 5; ++i) {
    const backend::RunResult result = run_for(*box, 500ms, {"sleep", "600"});
    EXPECT_TRUE(result.timed_out);
    EXPECT_EQ(result.box_lost, "") << "what was stopped can be killed";
  }
  stopper.process->signal(SIGKILL, backend::SignalTarget::group);
  EXPECT_EQ(finish(stopper.process->wait()).signal, SIGKILL);
  EXPECT_EQ(run_payload(*box, {"echo", "still", "here"}).out.data, "still here\n");
  destroy(*box);
}

TEST_F(Promises, ABoxWhoseProcessDoesNotEndWhenItIsKilledIsDestroyed) {
  const std::unique_ptr<backend::Box> box = create_box(spec());
  backend::ProcessSpec program = program_of({"held-by-tracer"});
  backend::StartedCommand command =
      finish(backend::start_command(*box, std::move(program), backend::Input::none));
  pollfd held{.fd = command.out.get(), .events = POLLIN, .revents = 0};
  ASSERT_EQ(::poll(&held, 1, static_cast<int>(std::chrono::milliseconds(kPatience).count())), 1);
  backend::RunOptions options;
  options.timeout = 1ms;
  const backend::RunResult result =
      finish(backend::run_to_end(std::move(command), std::move(options)));
  ASSERT_EQ(result.out.data, "held\n") << "nothing traces it";
  EXPECT_TRUE(result.timed_out);
  EXPECT_NE(result.box_lost, "");
  EXPECT_FALSE(box->alive());
  destroy(*box);
}

TEST_F(Promises, WhoWaitsInADestroyedBoxIsToldWhy) {
  const std::unique_ptr<backend::Box> box = create_box(spec());
  const Running other = begin(*box, {"ignore-term"});
  const Running held = begin(*box, {"held-by-tracer"});
  held.process->signal(SIGKILL, backend::SignalTarget::group);
  try {
    finish(other.process->wait());
    FAIL() << "the box lives";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::box_lost);
    EXPECT_NE(std::string(error.what()).find("was killed and did not end"), std::string::npos)
        << error.what();
  }
  destroy(*box);
}

}  // namespace
}  // namespace caisson::security_test
