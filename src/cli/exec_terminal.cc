#include "cli/exec_terminal.h"

#include <unistd.h>

#include <cstdint>
#include <exception>
#include <utility>

#include "base/error.h"
#include "base/random.h"
#include "base/str.h"
#include "cli/attached.h"
#include "cli/process_client.h"
#include "cli/process_options.h"
#include "cli/raw_terminal.h"

namespace caisson::cli {

namespace {

// Ends it if it still runs.
Task<void> forget(DaemonClient& client, ProcessName name) {
  try {
    co_await client.call("DELETE", process_target(name));
  } catch (const Error& error) {
    const bool gone = error.code() == ErrorCode::managed_process_not_found ||
                      error.code() == ErrorCode::session_not_found;
    if (!gone) throw;
  }
}

Task<int> run(DaemonClient& client, ProcessStart start, Attachment attachment) {
  const ProcessName name = attachment.name;
  co_await start_process(client, std::move(start));
  std::exception_ptr failure;
  int code = 0;
  try {
    code = co_await attach(client, std::move(attachment));
  } catch (...) {
    failure = std::current_exception();
  }
  try {
    co_await forget(client, name);
  } catch (const Error&) {
    if (!failure) throw;  // otherwise the first failure tells more
  }
  if (failure) std::rethrow_exception(failure);
  co_return code;
}

}  // namespace

int run_on_terminal(TerminalExec exec) {
  const Environment environment = process_environment();
  ProcessOptions options{
      .id = str("exec-", random_hex(4)), .env = exec.options.env, .workdir = exec.options.workdir};
  options.tty = true;
  // Ours is what the keys and the screen are like; what -e says counts more.
  options.env.insert(options.env.begin(), "TERM");
  ProcessStart start{.session = exec.session,
                     .settings = std::move(exec.settings.body),
                     .process = plan_process(options, exec.command, environment)};
  set_size(start.process, terminal_size());
  Attachment attachment{.daemon = exec.daemon,
                        .name = {.session = exec.session, .process = *options.id},
                        .input = exec.options.interactive,
                        .from = {},
                        .err_from = {}};
  return run_with_daemon(std::move(exec.daemon), [&](DaemonClient& client) {
    return run(client, std::move(start), std::move(attachment));
  });
}

}  // namespace caisson::cli
