#include "contract.h"

#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <stdexcept>

#include "base/file.h"
#include "base/temporary_directory.h"

namespace caisson::contract {

namespace asio = boost::asio;
namespace fs = std::filesystem;

namespace {

// A directory with the payload and nothing else, made once: what a box mounts must not lie where no
// box may look, and nobody knows where the build directory is.
const fs::path& payload_directory() {
  static const TemporaryDirectory directory(0755);
  static const bool copied = fs::copy_file(CAISSON_PAYLOAD, directory.path() / "caisson-payload");
  if (!copied) throw std::runtime_error("cannot copy " CAISSON_PAYLOAD);
  return directory.path();
}

}  // namespace

void BackendContract::SetUp() {
  std::signal(SIGPIPE, SIG_IGN);
  fs::create_directory(workspace());
  fs::create_directory(temp_.path() / "backend");
  backend_ = GetParam().make(io_.get_executor(), temp_.path() / "backend");
  const backend::BackendStatus status = await(backend_->status());
  if (!status.available && ::geteuid() == 0) {
    FAIL() << GetParam().name << " is unavailable to root: " << status.reason;
  }
  if (!status.available) GTEST_SKIP() << GetParam().name << " is unavailable: " << status.reason;
}

void BackendContract::TearDown() {
  if (box_) await(box_->destroy(0ms));
  box_.reset();
  if (backend_) await(backend_->stop());
}

void BackendContract::drive(const bool& done) {
  const Deadline deadline = Clock::now() + 60s;
  while (!done) {
    io_.restart();
    if (io_.run_one_until(deadline) == 0) {
      throw std::runtime_error("it neither ended nor went on within a minute");
    }
  }
}

Task<Nothing> BackendContract::without_value(Task<void> task) {
  co_await std::move(task);
  co_return Nothing();
}

model::BoxSettings BackendContract::spec() const {
  model::BoxSettings spec;
  spec.host_path = workspace().native();
  spec.memory_mb = 64;
  spec.pids_limit = 32;
  spec.extra_mounts.push_back({payload_directory().native(), "/opt/payload", model::MountMode::ro});
  return spec;
}

Box& BackendContract::box() {
  if (!box_) box_ = create(spec());
  return *box_;
}

RunRequest BackendContract::payload(std::vector<std::string> words) {
  RunRequest request;
  request.process.argv = std::move(words);
  request.process.argv.insert(request.process.argv.begin(), kPayload);
  request.process.env = backend::default_environment();
  request.timeout = 60s;
  return request;
}

RunRequest BackendContract::shell(std::string script) {
  RunRequest request = payload({});
  request.process.argv = {"/bin/sh", "-c", std::move(script)};
  return request;
}

bool BackendContract::answers(Box& box) {
  const RunResult result = await(backend::run(box, payload({"echo", "still", "here"})));
  return result.exit == ProcessExit{.user_time = result.exit.user_time,
                                    .system_time = result.exit.system_time,
                                    .peak_memory_bytes = result.exit.peak_memory_bytes,
                                    .ago = result.exit.ago} &&
         result.out.data == "still here\n";
}

std::unique_ptr<LiveProcess> BackendContract::start(Box& box, std::vector<std::string> argv) {
  auto [in_read, in_write] = make_pipe();
  auto [out_read, out_write] = make_pipe();
  auto live =
      std::make_unique<LiveProcess>(io_.get_executor(), std::move(in_write), std::move(out_read));
  backend::ProcessSpec process;
  process.argv = std::move(argv);
  process.env = backend::default_environment();
  backend::Stdio stdio{std::move(in_read), std::move(out_write), open_file("/dev/null", O_WRONLY)};
  live->set_process(await(box.start(std::move(process), std::move(stdio))));
  return live;
}

Task<std::string> LiveProcess::read_until(std::string text) {
  char buffer[4096];
  for (;;) {
    const std::size_t found = unread_.find(text);
    if (found != std::string::npos) {
      std::string taken = unread_.substr(0, found + text.size());
      unread_.erase(0, taken.size());
      co_return taken;
    }
    const auto [error, got] =
        co_await out_.async_read_some(asio::buffer(buffer), asio::as_tuple(asio::use_awaitable));
    if (error) co_return std::exchange(unread_, {});
    unread_.append(buffer, got);
  }
}

Task<std::string> LiveProcess::read_to_end() {
  std::string all = std::exchange(unread_, {});
  char buffer[4096];
  for (;;) {
    const auto [error, got] =
        co_await out_.async_read_some(asio::buffer(buffer), asio::as_tuple(asio::use_awaitable));
    if (error) co_return all;
    all.append(buffer, got);
  }
}

fs::path BackendContract::write_host_file(const fs::path& path, const std::string& text) {
  std::ofstream(path) << text;
  return path;
}

std::string BackendContract::read_host_file(const fs::path& path) {
  return find_file_content(path).value_or("(missing)");
}

INSTANTIATE_TEST_SUITE_P(Every, BackendContract, testing::ValuesIn(factories()),
                         [](const auto& info) { return info.param.name; });

}  // namespace caisson::contract
