#include <sys/utsname.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/json/array.hpp>
#include <exception>
#include <memory>
#include <utility>

#include "backend/native/cgroup_host.h"
#include "backend/native/image_store.h"
#include "backend/native/network.h"
#include "base/error.h"
#include "base/str.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/load_config.h"
#include "cli/option.h"
#include "cli/report.h"
#include "cli/settings.h"
#include "cli/terminal.h"
#include "quota/choose.h"

namespace caisson::cli {

namespace {

namespace asio = boost::asio;
namespace json = boost::json;
namespace native = backend::native;
using model::LayerState;

struct Request {
  std::optional<std::string> state;
  std::vector<std::string> allow_missing;
  bool json = false;
};

// All that is known about this host once it has been looked at.
struct Findings {
  backend::BackendStatus status;
  native::NetworkProbe network;
  std::string kernel;
  std::string machine;
  std::string cgroups;
  std::filesystem::path state_dir;
  std::vector<std::string> images;
  std::string image_problem;  // why the images cannot be listed
  std::filesystem::path workspaces;
  quota::Choice storage;  // how they can be limited
};

Task<void> ask(backend::Backend& backend, backend::BackendStatus& status) {
  std::exception_ptr failure;
  try {
    status = co_await backend.status();
  } catch (...) {
    failure = std::current_exception();
  }
  co_await backend.stop();
  if (failure) std::rethrow_exception(failure);
}

// Makes a box. A backend that cannot even be set up is a finding, too.
backend::BackendStatus try_backend(const BackendKind& kind, BackendOptions options) {
  backend::BackendStatus status;
  try {
    asio::io_context io(1);
    const std::unique_ptr<backend::Backend> backend =
        kind.make(io.get_executor(), std::move(options));
    std::exception_ptr failure;
    asio::co_spawn(io, ask(*backend, status),
                   [&](const std::exception_ptr& error) { failure = error; });
    io.run();
    if (failure) std::rethrow_exception(failure);
  } catch (const Error& error) {
    status.available = false;
    status.reason = error.what();
  }
  return status;
}

// Where workspaces lie as the daemon's configuration has it; a faulty one is told by another
// command.
std::filesystem::path workspace_root(const std::filesystem::path& state_dir) {
  const std::vector<std::string> environment = environment_entries();
  try {
    const model::LocalConfig local =
        load_config(find_config_file(std::nullopt, environment, ::geteuid() == 0), environment)
            .config.box.local;
    if (!local.default_workspace.empty()) return std::filesystem::absolute(local.default_workspace);
    if (local.host_root) return std::filesystem::absolute(*local.host_root);
  } catch (const Error&) {
  }
  return state_dir;
}

Findings look(const Request& request, const Invocation& invocation) {
  const Environment environment = process_environment();
  Findings found;
  found.state_dir = state_directory(request.state, environment, ::geteuid() == 0);
  BackendOptions options{.state_dir = found.state_dir,
                         .allow_missing = allowed_missing(request.allow_missing, environment)};
  found.status = try_backend(invocation.backends.front(), std::move(options));
  found.network = native::Network::probe();
  found.cgroups = to_string(native::inspect_cgroups().mode);
  found.workspaces = workspace_root(found.state_dir).lexically_normal();
  found.storage = quota::choose(found.workspaces, {.state = found.state_dir / "quota"});
  utsname name{};
  check_syscall("uname", ::uname(&name));
  found.kernel = name.release;
  found.machine = name.machine;
  try {
    for (const native::Image& image : native::ImageStore(found.state_dir).list()) {
      found.images.push_back(image.name);
    }
  } catch (const Error& error) {
    found.image_problem = error.what();
  }
  return found;
}

json::object storage_json(const Findings& found) {
  json::array drivers;
  for (const quota::Candidate& candidate : found.storage.candidates) {
    json::object driver{{"name", candidate.name},
                        {"usable", candidate.why.empty()},
                        {"bytes", candidate.enforces.bytes},
                        {"inodes", candidate.enforces.inodes}};
    if (!candidate.why.empty()) driver["reason"] = candidate.why;
    model::add_fix(driver, candidate.fix);
    drivers.emplace_back(std::move(driver));
  }
  const quota::Enforced enforces = found.storage.enforces();
  json::object storage{{"directory", found.workspaces.native()},
                       {"driver", nullptr},
                       {"bytes", enforces.bytes},
                       {"inodes", enforces.inodes},
                       {"drivers", std::move(drivers)}};
  if (found.storage.driver) storage["driver"] = found.storage.driver->name();
  return storage;
}

json::object to_json(const Findings& found) {
  json::object network{{"available", found.network.available}};
  if (!found.network.reason.empty()) network["reason"] = found.network.reason;
  model::add_fix(network, found.network.fix);
  if (!found.network.caution.empty()) network["caution"] = found.network.caution;
  json::array images;
  for (const std::string& name : found.images) images.emplace_back(name);
  return {{"ok", found.status.available},     {"reason", found.status.reason},
          {"version", version_number()},      {"user", ::geteuid() == 0 ? "root" : "ordinary"},
          {"kernel", found.kernel},           {"machine", found.machine},
          {"cgroups", found.cgroups},         {"state_dir", found.state_dir.native()},
          {"images", std::move(images)},      {"isolation", model::to_json(found.status.isolation)},
          {"network_on", std::move(network)}, {"storage_quotas", storage_json(found)}};
}

// Three columns: state, name, detail; the step that fixes it on a line of its own below the detail.
class Sheet {
 public:
  explicit Sheet(bool colour) : colour_(colour) {}

  void title(std::string_view text) {
    text_ += str(text_.empty() ? "" : "\n", coloured(text, Colour::bold, colour_), "\n");
  }
  void row(LayerState state, std::string_view name, std::string_view detail, std::string_view fix) {
    text_ += str("  ", coloured(padded(word(state), 10), colour_of(state), colour_),
                 padded(name, 18), detail, "\n");
    if (!fix.empty()) text_ += str(std::string(30, ' '), "to fix it: ", fix, "\n");
  }
  void fact(std::string_view name, std::string_view value) {
    text_ += str("  ", padded(name, 10), value, "\n");
  }
  void verdict(bool good, std::string_view sentence) {
    text_ += str("\n", coloured(sentence, good ? Colour::green : Colour::red, colour_), "\n");
  }
  const std::string& text() const { return text_; }

 private:
  static std::string_view word(LayerState state) {
    switch (state) {
      case LayerState::in_force:
        return "in force";
      case LayerState::weaker:
        return "weaker";
      case LayerState::missing:
        break;
    }
    return "missing";
  }
  static Colour colour_of(LayerState state) {
    switch (state) {
      case LayerState::in_force:
        return Colour::green;
      case LayerState::weaker:
        return Colour::yellow;
      case LayerState::missing:
        break;
    }
    return Colour::red;
  }

  bool colour_;
  std::string text_;
};

void add_network(Sheet& sheet, const native::NetworkProbe& network) {
  if (!network.available) {
    return sheet.row(LayerState::missing, "network", network.reason, network.fix);
  }
  if (!network.caution.empty()) {
    return sheet.row(LayerState::weaker, "network", network.caution, network.fix);
  }
  sheet.row(LayerState::in_force, "network", "own namespace and addresses behind NAT", "");
}

// The driver that would be used; when there is none, why, of each.
void add_storage(Sheet& sheet, const quota::Choice& storage) {
  const quota::Candidate& last = storage.candidates.back();
  if (!storage.driver && storage.candidates.front().why == last.why) {
    return sheet.row(LayerState::missing, "every driver", last.why, last.fix);
  }
  for (const quota::Candidate& candidate : storage.candidates) {
    if (!storage.driver) {
      sheet.row(LayerState::missing, candidate.name, candidate.why, candidate.fix);
    } else if (candidate.name == storage.driver->name()) {
      const bool both = candidate.enforces.inodes;
      sheet.row(both ? LayerState::in_force : LayerState::weaker, candidate.name,
                both ? "bytes and inodes can be limited" : "inodes cannot be limited", "");
    }
  }
}

std::string describe(const Findings& found) {
  Sheet sheet(wants_colour(STDOUT_FILENO));
  if (!found.status.isolation.layers.empty()) sheet.title("A box with default settings");
  for (const model::LayerReport& layer : found.status.isolation.layers) {
    sheet.row(layer.state, to_string(layer.layer), layer.detail, layer.fix);
  }
  sheet.title("A box with --network on");
  add_network(sheet, found.network);
  sheet.title(str("Storage quotas of directories below ", found.workspaces.native()));
  add_storage(sheet, found.storage);
  sheet.title("This host");
  sheet.fact("caisson", version_number());
  sheet.fact("user", ::geteuid() == 0 ? "root" : "an ordinary user: some layers are weaker");
  sheet.fact("kernel", str("Linux ", found.kernel, " ", found.machine));
  sheet.fact("cgroups", found.cgroups);
  sheet.fact("state", found.state_dir.native());
  const std::string images = found.images.empty() ? "none imported" : join(found.images, ", ");
  sheet.fact("images", found.image_problem.empty() ? images : found.image_problem);
  sheet.verdict(found.status.available,
                found.status.available
                    ? std::string("Boxes can be made here.")
                    : str("Boxes cannot be made here: ", printable(found.status.reason, 4096)));
  return sheet.text();
}

int run_doctor(const Request& request, const Invocation& invocation) {
  const Findings found = look(request, invocation);
  if (request.json) {
    print(to_json(found));
  } else {
    print(describe(found));
  }
  return found.status.available ? 0 : 1;
}

}  // namespace

void add_doctor(CLI::App& program, Invocation& invocation) {
  CLI::App& app = *program.add_subcommand("doctor", "Say what this host can enforce");
  const auto request = std::make_shared<Request>();
  add_allow_missing(app, request->allow_missing);
  add_state(app, request->state);
  add_json(app, request->json);
  app.footer(
      "Makes a box and lets it prove each layer from inside. The exit code is 0 when a box with\n"
      "default settings can be made, and 1 when not.\n");
  app.callback([request, &invocation] {
    invocation.work = [request, &invocation] { return run_doctor(*request, invocation); };
  });
}

}  // namespace caisson::cli
