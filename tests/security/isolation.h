#pragma once
#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <future>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "async/task.h"
#include "backend/box.h"
#include "backend/native/native.h"
#include "backend/run.h"
#include "base/temporary_directory.h"
#include "host_side.h"
#include "model/box_settings.h"
#include "model/isolation.h"

namespace caisson::security_test {

// Inside a box, at a place that does not keep the box from sharing the root of its image.
inline constexpr char kPayload[] = "/home/box/payload/caisson-payload";
inline constexpr std::chrono::seconds kPatience{120};  // for anything to end

// Layers that CAISSON_TEST_WITHHOLD=layer[,layer] names. The whole suite then makes its boxes
// without them, and a person sees which rows depend on them.
std::set<model::Layer> withheld_by_environment();

// Boxes of the native backend and the checks that are run in them.
class Isolation : public ::testing::Test {
 protected:
  Isolation();
  ~Isolation() override;

  // Runs the event loop until the task has ended.
  template <typename T>
  T finish(Task<T> task) {
    std::future<T> result = boost::asio::co_spawn(io_, std::move(task), boost::asio::use_future);
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (result.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
      if (io_.run_one_until(deadline) == 0) throw std::runtime_error("a task does not end");
    }
    return result.get();
  }

  // What every box of the suite has: the payload program's directory, read-only, where kPayload
  // says.
  model::BoxSettings spec() const;

  // The same with a mount that asks for a root of the box's own instead of the shared one.
  model::BoxSettings spec_with_own_root() const;

  // Options as the environment and this user's rights ask for them.
  backend::native::Options options() const;
  std::unique_ptr<backend::native::Native> make_backend(backend::native::Options options);

  std::unique_ptr<backend::Box> create_box(model::BoxSettings box_spec);
  void destroy(backend::Box& box);

  // Runs the program with these words in the box, to its end.
  backend::RunResult run(backend::Box& box, std::vector<std::string> argv);
  backend::RunResult run_payload(backend::Box& box, std::vector<std::string> words);

  // Runs the check twice: as the first process the box ever had, and as a later one.
  void prove_check(backend::Box& box, const std::string& check, const CheckArguments& arguments);

  // Every check of the row, each in a box of its own made from `box_spec`.
  void prove_row(std::string_view row, const model::BoxSettings& box_spec,
                 const CheckArguments& more_arguments = {});
  void prove_row(std::string_view row) { prove_row(row, spec()); }

  // Names of the checks of the row that can hold for this user. Says which cannot, and why.
  std::vector<std::string> checks_of(std::string_view row) const;

  const HostSide& host() const { return host_; }

 private:
  boost::asio::io_context io_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  const TemporaryDirectory directories_{0755};
  const TemporaryDirectory elsewhere_{0755};
  HostSide host_;
  std::unique_ptr<backend::native::Native> native_;
};

// Why a row cannot hold for an ordinary user; empty when it can, and for root.
std::string_view reason_to_skip(std::string_view row_or_check);

}  // namespace caisson::security_test
