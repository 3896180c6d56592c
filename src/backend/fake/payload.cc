// The verbs of tests/payload, simulated: same words, same output, same ends.
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "backend/fake/program.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/str.h"
#include "base/text.h"

namespace caisson::backend::fake {
namespace {

constexpr std::uint64_t kMiB = 1u << 20;
constexpr int kUsage = 2;
constexpr std::string_view kSelf = "/usr/bin/caisson-payload";
constexpr auto kDaemonTime = std::chrono::minutes(10);
constexpr long long kDescriptorLimit = 1024;  // RLIMIT_NOFILE of a real process

struct Verb {
  std::string_view name;
  Program run;  // argv holds the words after the verb
};

std::string word(const Call& call, std::size_t index) {
  return index < call.argv.size() ? call.argv[index] : "";
}

std::chrono::microseconds seconds_in(const std::string& text) {
  const double seconds = text.empty() ? 1 : std::strtod(text.c_str(), nullptr);
  return std::chrono::microseconds(static_cast<std::int64_t>(seconds * 1e6));
}

SimulatedPtr fork_self(const Call& call, std::vector<std::string> words) {
  ProcessSpec spec{std::move(words), call.process->spec.env, call.process->spec.cwd};
  spec.argv.insert(spec.argv.begin(), std::string(kSelf));
  return call.machine->fork(*call.process, std::move(spec), call.process->streams);
}

Task<void> wait_for_end_of_input(SimulatedPtr process) {
  for (;;) {
    const std::string piece = co_await read_input(process);
    if (piece.empty()) co_return;
  }
}

Task<int> run_exit(Call call) {
  co_return static_cast<int>(parse_integer(word(call, 0)).value_or(0));
}

Task<int> run_kill(Call call) {
  const auto number = parse_integer(word(call, 0));
  if (!number || *number < 0 || *number >= NSIG) co_return kUsage;
  call.machine->signal(*call.process, static_cast<int>(*number));
  co_await call.machine->yield();
  co_return 0;
}

// The loop is not held up: the time passes, and is counted as used.
Task<int> run_spin(Call call) {
  const std::chrono::microseconds time = seconds_in(word(call, 0));
  constexpr std::chrono::microseconds kSlice = std::chrono::milliseconds(10);
  for (std::chrono::microseconds spent{0}; spent < time; spent += kSlice) {
    const auto slice = std::min(kSlice, time - spent);
    co_await call.machine->sleep(slice);
    call.process->user_time += slice;
  }
  co_return 0;
}

Task<int> run_hog(Call call) {
  const long long wanted = parse_integer(word(call, 0)).value_or(1);
  for (long long i = 0; i < wanted; ++i) co_await call.machine->allocate(call.process, kMiB);
  co_await print(call.process, str("held ", wanted, "\n"));
  co_return 0;
}

Task<int> run_fork_bomb(Call call) {
  const long long wanted = parse_integer(word(call, 0)).value_or(0);
  long long made = 0;
  try {
    for (; made < wanted; ++made) fork_self(call, {"pause"})->ends_with_parent = true;
  } catch (const SystemError& error) {
    if (error.error_number() != EAGAIN) throw;
  }
  co_await print(call.process, str("forked ", made, "\n"));
  co_await wait_for_end_of_input(call.process);
  co_return 0;
}

Task<int> run_flood(Call call) {
  const auto wanted = static_cast<std::uint64_t>(parse_integer(word(call, 0)).value_or(0));
  std::uint64_t line = 0;
  std::uint64_t block_size = 0;
  for (std::uint64_t sent = 0; wanted == 0 || sent < wanted; sent += block_size) {
    std::string block;
    while (block.size() < (1u << 16)) {
      char text[17];
      std::snprintf(text, sizeof text, "%015llu\n", static_cast<unsigned long long>(line++));
      block += text;
    }
    if (wanted != 0 && wanted - sent < block.size()) block.resize(wanted - sent);
    block_size = block.size();
    co_await print(call.process, std::move(block));
    co_await call.machine->yield();
  }
  co_return 0;
}

Task<int> run_sleep(Call call) {
  co_await call.machine->sleep(seconds_in(word(call, 0)));
  co_return 0;
}

Task<int> run_pause(Call call) {
  co_await call.machine->sleep(kDaemonTime);
  co_return 0;
}

Task<int> run_daemonise(Call call) {
  const SimulatedPtr daemon = fork_self(call, {"daemon"});
  daemon->group = daemon->pid;
  daemon->parent = 1;
  co_return 0;
}

Task<int> run_daemon(Call call) {
  co_await print(call.process, str("daemon ", call.process->pid, "\n"));
  co_await call.machine->sleep(kDaemonTime);
  co_return 0;
}

Task<int> run_ignore_term(Call call) {
  call.process->ignored.insert(SIGTERM);
  co_await print(call.process, "ready\n");
  co_await call.machine->sleep(kDaemonTime);
  co_return 0;
}

Task<int> run_print_env(Call call) {
  std::string lines;
  for (const std::string& entry : call.process->spec.env) lines += entry + "\n";
  co_await print(call.process, std::move(lines));
  co_return 0;
}

Task<int> run_print_fds(Call call) {
  co_await print(call.process, "0 pipe:[0]\n1 pipe:[1]\n2 pipe:[2]\n");
  co_return 0;
}

Task<int> run_cat(Call call) {
  if (!call.argv.empty()) {
    std::string content = call.machine->files().read(absolute(*call.process, call.argv[0]));
    co_await print(call.process, std::move(content));
    co_return 0;
  }
  for (;;) {
    std::string piece = co_await read_input(call.process);
    if (piece.empty()) co_return 0;
    co_await print(call.process, std::move(piece));
  }
}

Task<int> run_echo(Call call) {
  co_await print(call.process, join(call.argv, " ") + "\n");
  co_return 0;
}

Task<int> run_hold_fds(Call call) {
  const long long wanted = parse_integer(word(call, 0)).value_or(0);
  co_await print(call.process, str("held ", std::min(wanted, kDescriptorLimit - 3), "\n"));
  co_await wait_for_end_of_input(call.process);
  co_return 0;
}

constexpr Verb kVerbs[] = {
    {"exit", run_exit},           {"kill", run_kill},
    {"spin", run_spin},           {"hog", run_hog},
    {"fork-bomb", run_fork_bomb}, {"flood", run_flood},
    {"sleep", run_sleep},         {"daemonise", run_daemonise},
    {"print-env", run_print_env}, {"ignore-term", run_ignore_term},
    {"print-fds", run_print_fds}, {"cat", run_cat},
    {"echo", run_echo},           {"hold-fds", run_hold_fds},
    {"pause", run_pause},         {"daemon", run_daemon},
};

}  // namespace

Task<int> run_payload(Call call) {
  const std::string name = call.argv.size() > 1 ? call.argv[1] : "";
  for (const Verb& verb : kVerbs) {
    if (verb.name != name) continue;
    call.argv.erase(call.argv.begin(), call.argv.begin() + 2);
    co_return co_await verb.run(std::move(call));
  }
  co_await complain(call.process, str("caisson-payload: '", name, "' is not simulated\n"));
  co_return kUsage;
}

}  // namespace caisson::backend::fake
