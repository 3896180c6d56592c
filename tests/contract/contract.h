#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <chrono>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "async/task.h"
#include "backend/backend.h"
#include "backend/box.h"
#include "backend/run.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/temporary_directory.h"
#include "factories.h"
#include "model/box_settings.h"

namespace caisson::contract {

using namespace std::chrono_literals;
using backend::Box;
using backend::Process;
using backend::ProcessExit;
using backend::RunRequest;
using backend::RunResult;
using backend::SignalTarget;
using testing::HasSubstr;

// Where the payload program is inside every box of the suite.
inline const std::string kPayload = "/opt/payload/caisson-payload";

// An operation that goes on while the test does other things.
template <typename T>
struct Pending {
  struct State {
    bool done = false;
    std::optional<T> value;
    std::exception_ptr failure;
  };
  std::shared_ptr<State> state = std::make_shared<State>();
};

struct Nothing {};

// A process whose output the test reads while it runs.
class LiveProcess {
 public:
  LiveProcess(boost::asio::any_io_executor executor, UniqueFd in, UniqueFd out)
      : in_(std::move(in)), out_(std::move(executor), out.release()) {}

  Process& process() { return *process_; }
  void set_process(std::unique_ptr<Process> process) { process_ = std::move(process); }
  void end_input() { in_.reset(); }

  // Everything up to and with `text`, or to the end of the output.
  Task<std::string> read_until(std::string text);
  // Ends when no process has the output open any more.
  Task<std::string> read_to_end();

 private:
  std::unique_ptr<Process> process_;
  UniqueFd in_;
  boost::asio::posix::stream_descriptor out_;
  std::string unread_;
};

// What every backend keeps. One backend, one loop and one default box for a test.
class BackendContract : public testing::TestWithParam<Factory> {
 protected:
  void SetUp() override;
  void TearDown() override;

  // Drives the loop until the operation is done; a minute is the deadline of everything here.
  template <typename T>
  T await(Task<T> task) {
    return await(begin(std::move(task)));
  }
  void await(Task<void> task) { await(begin(std::move(task))); }

  template <typename T>
  T await(Pending<T> pending) {
    drive(pending.state->done);
    if (pending.state->failure) std::rethrow_exception(pending.state->failure);
    return std::move(*pending.state->value);
  }

  template <typename T>
  Pending<T> begin(Task<T> task) {
    Pending<T> pending;
    auto done = [state = pending.state](std::exception_ptr failure, T value) {
      state->done = true;
      state->failure = failure;
      if (!failure) state->value = std::move(value);
    };
    boost::asio::co_spawn(io_, std::move(task), std::move(done));
    return pending;
  }

  Pending<Nothing> begin(Task<void> task) { return begin(without_value(std::move(task))); }

  // The code of the Error that the operation ends with; nullopt when it ends well.
  template <typename Operation>
  std::optional<ErrorCode> code_of(Operation operation) {
    try {
      await(std::move(operation));
    } catch (const Error& error) {
      last_message_ = error.what();
      return error.code();
    }
    return std::nullopt;
  }

  // A box with the workspace mounted writable, the payload, and small limits.
  model::BoxSettings spec() const;
  std::unique_ptr<Box> create(model::BoxSettings spec) {
    return await(backend_->create(std::move(spec)));
  }
  Box& box();  // the default box, made at the first use

  static RunRequest payload(std::vector<std::string> words);
  static RunRequest shell(std::string script);
  RunResult run(RunRequest request) { return await(backend::run(box(), std::move(request))); }
  // Whether the box still does what it is asked to.
  bool answers(Box& box);

  std::unique_ptr<LiveProcess> start(Box& box, std::vector<std::string> argv);

  std::filesystem::path workspace() const { return temp_.path() / "workspace"; }
  // Writes a file below the test's own directory; read gives "(missing)" for one that is not there.
  std::filesystem::path write_host_file(const std::filesystem::path& path, const std::string& text);
  static std::string read_host_file(const std::filesystem::path& path);

  const TemporaryDirectory temp_{0755};  // a user of a box is not the user of the test
  boost::asio::io_context io_;
  std::unique_ptr<backend::Backend> backend_;
  std::unique_ptr<Box> box_;
  std::string last_message_;

 private:
  static Task<Nothing> without_value(Task<void> task);
  void drive(const bool& done);
};

}  // namespace caisson::contract
