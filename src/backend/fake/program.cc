#include "backend/fake/program.h"

#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "backend/fake/signal_name.h"
#include "base/error.h"
#include "base/path.h"
#include "base/str.h"
#include "base/text.h"

namespace caisson::backend::fake {
namespace {

std::string_view base_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

}  // namespace

Program find_program(const Files& files, const std::string& path) {
  const std::string_view name = base_name(path);
  if (name == "sh") return run_shell;
  if (name == "caisson-payload") return run_payload;
  for (const std::string_view tool :
       {"true", "false", "cat", "echo", "sleep", "mkdir", "pwd", "env"}) {
    if (name == tool) return run_tool;
  }
  return files.read(path).starts_with("#!/bin/sh") ? run_shell : nullptr;
}

Task<int> run_program(Program program, Call call) {
  const SimulatedPtr process = call.process;
  const std::shared_ptr<Machine> machine = call.machine;
  const std::string name(base_name(call.argv.front()));
  std::string fault;
  bool nobody_reads = false;
  // A coroutine that is cancelled before its first suspension never reports its end (Asio 1.81).
  co_await machine->yield();
  try {
    co_return co_await program(std::move(call));
  } catch (const SystemError& error) {
    nobody_reads = error.error_number() == EPIPE;
    fault = error.what();
  } catch (const Error& error) {
    fault = error.what();
  }
  if (nobody_reads) {
    machine->signal(*process, SIGPIPE);
  } else {
    co_await complain(process, str(name, ": ", fault, "\n"));
  }
  co_return 1;
}

Task<int> run_tool(Call call) {
  const std::string name(base_name(call.argv.front()));
  std::vector<std::string> arguments(call.argv.begin() + 1, call.argv.end());
  Files& files = call.machine->files();
  if (name == "false") co_return 1;
  if (name == "echo") co_await print(call.process, join(arguments, " ") + "\n");
  if (name == "pwd") co_await print(call.process, call.process->spec.cwd + "\n");
  if (name == "env") co_await print(call.process, join(call.process->spec.env, "\n") + "\n");
  if (name == "sleep") {
    const double seconds = arguments.empty() ? 0 : std::strtod(arguments[0].c_str(), nullptr);
    co_await call.machine->sleep(
        std::chrono::microseconds(static_cast<std::int64_t>(seconds * 1e6)));
  }
  if (name == "mkdir") {
    for (const std::string& path : arguments) {
      if (path != "-p") files.make_directories(absolute(*call.process, path));
    }
  }
  if (name == "cat") {
    for (const std::string& path : arguments) {
      co_await print(call.process, files.read(absolute(*call.process, path)));
    }
    while (arguments.empty()) {
      std::string piece = co_await read_input(call.process);
      if (piece.empty()) break;
      co_await print(call.process, std::move(piece));
    }
  }
  co_return 0;
}

Task<void> print(SimulatedPtr process, std::string text) {
  const std::shared_ptr<Stream> out = process->streams.out;
  if (out) co_await out->write(std::move(text));
}

Task<void> complain(SimulatedPtr process, std::string text) {
  const std::shared_ptr<Stream> err = process->streams.err;
  if (err) co_await err->write(std::move(text));
}

Task<std::string> read_input(SimulatedPtr process) {
  const std::shared_ptr<Stream> in = process->streams.in;
  if (!in) co_return "";
  co_return co_await in->read();
}

std::string absolute(const Simulated& process, const std::string& path) {
  if (path.starts_with('/')) return normalise_path(path);
  return normalise_path(str(process.spec.cwd, "/", path));
}

std::string variable(const Simulated& process, std::string_view name) {
  const std::string prefix = str(name, "=");
  for (const std::string& entry : process.spec.env) {
    if (entry.starts_with(prefix)) return entry.substr(prefix.size());
  }
  return "";
}

std::optional<int> signal_from_text(std::string_view text) {
  if (const auto number = parse_integer(text); number && *number >= 0 && *number < NSIG) {
    return static_cast<int>(*number);
  }
  if (text.starts_with("SIG")) text.remove_prefix(3);
  for (int number = 1; number < NSIG; ++number) {
    const char* name = ::sigabbrev_np(number);
    if (name != nullptr && text == name) return number;
  }
  return std::nullopt;
}

}  // namespace caisson::backend::fake
