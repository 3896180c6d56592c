#pragma once
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "async/task.h"
#include "backend/box.h"
#include "backend/native/native.h"
#include "backend/run.h"
#include "base/temporary_directory.h"
#include "model/box_settings.h"

namespace caisson::benchmarks {

// An event loop with one thread, driven by whoever waits for something on it.
class Loop {
 public:
  boost::asio::any_io_executor executor() { return io_.get_executor(); }

  template <typename T>
  T await(Task<T> task) {
    std::optional<T> result;
    auto body = [](Task<T> inner, std::optional<T>& out) -> Task<void> {
      out.emplace(co_await std::move(inner));
    };
    finish(body(std::move(task), result));
    return std::move(*result);
  }
  void await(Task<void> task) { finish(std::move(task)); }

  // All of them at once, until the last has ended.
  void await_all(std::vector<Task<void>> tasks);

 private:
  void finish(Task<void> task);

  boost::asio::io_context io_{1};
};

// A native backend of its own for one measurement, stopped at its end.
class Boxes {
 public:
  Boxes();
  Boxes(const Boxes&) = delete;
  Boxes& operator=(const Boxes&) = delete;
  ~Boxes();

  Loop& loop() { return loop_; }
  // Without a spec: with the settings that a caller gets who asks for nothing.
  std::unique_ptr<backend::Box> create();
  std::unique_ptr<backend::Box> create(model::BoxSettings spec);
  void run_trivial_command(backend::Box& box);
  void destroy(backend::Box& box);

 private:
  TemporaryDirectory state_;
  Loop loop_;
  backend::native::Native backend_;
};

model::BoxSettings plain_spec();
backend::RunRequest trivial_request();
void require_success(const backend::RunResult& result);

}  // namespace caisson::benchmarks
