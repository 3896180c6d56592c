#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/native/native.h"
#include "base/error.h"
#include "base/log.h"
#include "cli/program.h"
#include "cli/report.h"

namespace caisson {
namespace {

// A program that is started without standard streams would find its own files under their numbers.
void occupy_standard_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) >= 0) continue;
    check_syscall("/dev/null", ::open("/dev/null", O_RDWR));  // NOLINT: meant to be inherited
  }
}

std::vector<cli::BackendKind> backends() {
  const auto native = [](boost::asio::any_io_executor executor,
                         cli::BackendOptions given) -> std::unique_ptr<backend::Backend> {
    backend::native::Options options;
    options.state_dir = std::move(given.state_dir);
    options.allow_missing = std::move(given.allow_missing);
    options.mount_roots = std::move(given.mount_roots);
    if (!given.name.empty()) options.name = std::move(given.name);
    options.keep_spares = given.many_boxes;
    options.keeper = given.keeper;
    if (given.inherited) options.inherited = std::move(*given.inherited);
    return std::make_unique<backend::native::Native>(std::move(executor), std::move(options));
  };
  return {{"native", native}};
}

int run(std::vector<std::string> arguments) {
  const std::vector<cli::BackendKind> kinds = backends();
  cli::Program program(std::move(arguments), kinds);
  try {
    occupy_standard_streams();
    return program.run();
  } catch (const Error& error) {
    return cli::report(error, program.wants_json());
  } catch (const std::exception& error) {
    return cli::report(Error(ErrorCode::internal_error, error.what()), program.wants_json());
  }
}

}  // namespace
}  // namespace caisson

int main(int argc, char** argv) {
  // Who writes to a pipe that nobody reads gets an error, and decides.
  std::signal(SIGPIPE, SIG_IGN);
  caisson::log::configure(caisson::log::Level::warning, caisson::log::Format::text, STDERR_FILENO);
  return caisson::run({argv + (argc > 0 ? 1 : 0), argv + argc});
}
