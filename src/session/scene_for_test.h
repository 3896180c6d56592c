#pragma once
#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <csignal>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "async/task.h"
#include "backend/fake/fake.h"
#include "base/clock.h"
#include "base/error.h"
#include "session/session.h"

namespace caisson::session {

inline constexpr auto kDeadline = std::chrono::seconds(20);

inline model::BoxRequest request_of(std::string id, std::string cmd = "") {
  model::BoxRequest request;
  request.session_id = std::move(id);
  request.command.cmd = std::move(cmd);
  return request;
}

inline ExecRequest command(std::string id, std::string cmd) {
  return {.asked = request_of(std::move(id), std::move(cmd)), .options = {}};
}

// What an operation came to, when it has ended.
template <typename T>
struct Outcome {
  bool done = false;
  std::optional<T> value;
  std::optional<ErrorCode> code;
  std::string message;
};

// A loop with a fake backend on it, and ways to wait for what runs there.
class SessionScene : public testing::Test {
 protected:
  void SetUp() override { std::signal(SIGPIPE, SIG_IGN); }

  // No boxes are made ahead: tests count them.
  static Settings plain() {
    Settings settings;
    settings.pooled_kinds = 0;
    return settings;
  }

  void drive(const std::function<bool()>& done) {
    const Deadline deadline = Clock::now() + kDeadline;
    while (!done() && Clock::now() < deadline) {
      io_.restart();
      io_.run_one_until(deadline);
    }
    ASSERT_TRUE(done()) << "it hangs";
  }

  template <typename T>
  std::shared_ptr<Outcome<T>> begin(Task<T> task) {
    auto outcome = std::make_shared<Outcome<T>>();
    auto done = [outcome](const std::exception_ptr& failure, T value) {
      finish(*outcome, failure);
      if (!failure) outcome->value = std::move(value);
    };
    boost::asio::co_spawn(io_, std::move(task), std::move(done));
    return outcome;
  }
  std::shared_ptr<Outcome<int>> begin(Task<void> task) {
    auto with_value = [](Task<void> inner) -> Task<int> {
      co_await std::move(inner);
      co_return 0;
    };
    return begin(with_value(std::move(task)));
  }

  template <typename T>
  Outcome<T> end(const std::shared_ptr<Outcome<T>>& outcome) {
    drive([&] { return outcome->done; });
    return *outcome;
  }

  template <typename T>
  T await(Task<T> task) {
    Outcome<T> outcome = end(begin(std::move(task)));
    EXPECT_FALSE(outcome.code) << outcome.message;
    return outcome.value.value_or(T());
  }
  void await(Task<void> task) { EXPECT_FALSE(end(begin(std::move(task))).code); }

  boost::asio::io_context io_{1};
  backend::fake::Fake backend_{io_.get_executor()};

 private:
  template <typename T>
  static void finish(Outcome<T>& outcome, const std::exception_ptr& failure) {
    outcome.done = true;
    if (!failure) return;
    try {
      std::rethrow_exception(failure);
    } catch (const Error& error) {
      outcome.code = error.code();
      outcome.message = error.what();
    } catch (const std::exception& error) {
      outcome.code = ErrorCode::internal_error;
      outcome.message = error.what();
    }
  }
};

}  // namespace caisson::session
