#include "boxes.h"

#include <cstdio>
#include <cstdlib>
#include <system_error>

#include "base/error.h"
#include "base/str.h"
#include "base/text.h"
#include "host_command.h"

namespace caisson::benchmarks {

namespace asio = boost::asio;

namespace {

backend::native::Options options_in(const std::filesystem::path& state_dir) {
  backend::native::Options options;
  options.state_dir = state_dir;
  return options;
}

}  // namespace

void Loop::finish(Task<void> task) {
  std::vector<Task<void>> one;
  one.push_back(std::move(task));
  await_all(std::move(one));
}

void Loop::await_all(std::vector<Task<void>> tasks) {
  std::size_t left = tasks.size();
  std::exception_ptr failure;
  for (Task<void>& task : tasks) {
    auto ended = [&](std::exception_ptr error) {
      --left;
      if (error && !failure) failure = std::move(error);
    };
    asio::co_spawn(io_, std::move(task), std::move(ended));
  }
  io_.restart();
  while (left > 0) io_.run_one();
  if (failure) std::rethrow_exception(failure);
}

Boxes::Boxes() : backend_(loop_.executor(), options_in(state_.path())) {}

Boxes::~Boxes() {
  try {
    loop_.await(backend_.stop());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "caisson-bench: the backend did not stop: %s\n", error.what());
  }
}

std::unique_ptr<backend::Box> Boxes::create() {
  return create(plain_spec());
}

std::unique_ptr<backend::Box> Boxes::create(model::BoxSettings spec) {
  return loop_.await(backend_.create(std::move(spec)));
}

void Boxes::run_trivial_command(backend::Box& box) {
  require_success(loop_.await(backend::run(box, trivial_request())));
}

void Boxes::destroy(backend::Box& box) {
  loop_.await(box.destroy(std::chrono::milliseconds(0)));
}

model::BoxSettings plain_spec() {
  model::BoxSettings spec;
  return spec;
}

backend::RunRequest trivial_request() {
  backend::RunRequest request;
  request.process.argv = trivial_command();
  request.process.env = backend::default_environment();
  return request;
}

void require_success(const backend::RunResult& result) {
  if (result.exit.signal == 0 && result.exit.exit_code == 0) return;
  throw Error(ErrorCode::command_not_started,
              str("the command in the box ended with code ", result.exit.exit_code, ", signal ",
                  result.exit.signal, ": ", printable(result.err.data)));
}

}  // namespace caisson::benchmarks
