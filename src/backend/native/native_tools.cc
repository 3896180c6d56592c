// Tools that are fetched when somebody first asks for one.
#include <sys/eventfd.h>

#include "async/blocking.h"
#include "backend/native/native_impl.h"
#include "base/error.h"
#include "base/log.h"
#include "base/str.h"
#include "model/image_name.h"
#include "model/tools.h"

namespace caisson::backend::native {

namespace {

// LangBot waits 30 seconds for the start of a process.
constexpr std::chrono::seconds kPatience{20};
// A host that cannot reach an index is not asked again by every retry of a client.
constexpr std::chrono::seconds kPause{60};

}  // namespace

// The box need not be made anew: it sees what is fetched (tools.h).
Task<std::string> Native::Impl::provide(std::string image, std::string program) {
  const std::shared_ptr<Impl> self = shared_from_this();
  const std::string on_host = program == "pip" && host.commands.contains("pip3") ? "pip3" : program;
  const bool is_ours =
      model::is_default_image(image) && model::is_tool(program) && !host.commands.contains(on_host);
  if (!is_ours || tools.fetched()) co_return std::string();
  if (!fetching) {
    if (Clock::now() < next_fetch) co_return fetch_problem;
    fetching = std::make_shared<Event>(executor);
    watches.spawn("fetch the tools", fetch_tools());
  }
  const std::shared_ptr<Event> fetched = fetching;
  if (co_await fetched->wait_until(Clock::now() + kPatience)) co_return fetch_problem;
  co_return str("the tools ", tools.set().name, " are being fetched: try again in a minute");
}

Task<void> Native::Impl::fetch_tools() {
  const std::shared_ptr<Impl> self = shared_from_this();
  auto fetch = [wanted = tools, stop = stop_fetching.get()] {
    return wanted.fetch({.stop = stop});
  };
  log::info("tools are being fetched", "tools", tools.set().name);
  try {
    co_await run_blocking(workers(), std::move(fetch));
    fetch_problem.clear();
    log::info("tools were fetched", "directory", tools.directory().native());
  } catch (const Error& error) {
    fetch_problem = error.what();
    log::warning("tools could not be fetched", "error", error.what());
  }
  next_fetch = Clock::now() + kPause;
  std::exchange(fetching, nullptr)->set();
}

void Native::Impl::end_fetching() const {
  check_syscall("eventfd", ::eventfd_write(stop_fetching.get(), 1));
}

}  // namespace caisson::backend::native
