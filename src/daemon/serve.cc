#include "daemon/serve.h"

#include <unistd.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <csignal>
#include <iterator>
#include <optional>
#include <utility>

#include "api/api.h"
#include "api/readiness.h"
#include "api/rpc/connection.h"
#include "api/rpc/routes.h"
#include "api/rpc/runtime.h"
#include "api/rpc/stdio.h"
#include "async/task_group.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "daemon/hangup.h"
#include "daemon/listen.h"
#include "daemon/room.h"
#include "daemon/settings.h"
#include "daemon/state_dir.h"
#include "daemon/storage.h"
#include "daemon/supervisor.h"
#include "daemon/token.h"
#include "net/server.h"
#include "service/box_configuration.h"
#include "service/policy.h"
#include "session/executions.h"
#include "session/files.h"
#include "session/processes.h"
#include "session/registry.h"
#include "store/async_store.h"

namespace caisson::daemon {

namespace asio = boost::asio;

namespace {

constexpr auto kGrace = std::chrono::seconds(10);  // for requests at work when we are to end
constexpr auto kProbeGoodFor = std::chrono::seconds(15);

backend::KeptEntries take_processes(backend::KeptEntries& kept) {
  backend::KeptEntries taken;
  for (auto entry = kept.begin(); entry != kept.end();) {
    const auto next = std::next(entry);
    if (session::is_kept_process(entry->first)) taken.insert(kept.extract(entry));
    entry = next;
  }
  return taken;
}

// Where a host speaks by standard input, it can do without the port.
std::unique_ptr<net::Server> make_server(const asio::any_io_executor& executor,
                                         const net::Router& router, const ServeOptions& options,
                                         const std::filesystem::path& state,
                                         const std::string& token,
                                         std::shared_ptr<net::Budget> budget) {
  try {
    // A daemon that a host started is that host's, and leaves the common socket to others.
    const bool common = !options.langbot.stdio_control;
    const ListenPlaces places{.state_dir = state,
                              .socket = common ? options.socket : std::filesystem::path()};
    net::ServerConfig config = server_config(options.config.daemon, places, token);
    config.budget = std::move(budget);
    return std::make_unique<net::Server>(executor, router, std::move(config));
  } catch (const Error& error) {
    if (!options.langbot.stdio_control) throw;
    log::warning("no port; relays are not available", "error", error.what());
    return nullptr;
  }
}

// Without one the daemon works, and its boxes end with it. Not so when there is one that only does
// not answer: it has the boxes that are to be found again.
std::unique_ptr<backend::KeeperProcess> find_keeper(const std::filesystem::path& state,
                                                    const model::DaemonConfig& daemon) {
  if (!daemon.recovery) return nullptr;
  try {
    return std::make_unique<backend::KeeperProcess>(state);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::busy) throw;
    log::error("no keeper; boxes end with this daemon", "error", error.what());
    return nullptr;
  }
}

// Another daemon may ask us to go from the moment the lock has our name, so that is heard before:
// it would end us half way. Who stops us while we wait for the lock stops us at once.
StateDir take_state(const ServeOptions& options, asio::signal_set& signals) {
  StateDir state(options.state_dir, options.replace);
  signals.add(SIGTERM);
  signals.add(SIGINT);
  return state;
}

// Everything a daemon is made of, in the order in which one thing needs the other.
class Daemon {
 public:
  Daemon(const asio::any_io_executor& executor, ServeOptions options,
         const MakeBackend& make_backend, std::size_t descriptors)
      : executor_(executor),
        options_(std::move(options)),
        signals_(executor, kReplaceSignal),
        state_(take_state(options_, signals_)),
        hangup_(meaning_of_hangup()),
        tasks_(executor),
        token_(load_or_make_token(state_.path())),
        budget_(std::make_shared<net::Budget>(
            static_cast<std::size_t>(options_.config.daemon.max_buffered_bytes))),
        server_(make_server(executor, router_, options_, state_.path(), token_, budget_)),
        keeper_(find_keeper(state_.path(), options_.config.daemon)),
        keeper_watch_(executor),
        kept_(keeper_ ? keeper_->take_entries() : backend::KeptEntries{}),
        inherits_(!kept_.empty()),
        leaves_boxes_(keeper_ && leaves_boxes(options_.config.daemon)),
        backend_(make_backend(executor, keeper_.get(), kept_)),
        probe_(
            executor, std::string(backend_->name()), [this] { return backend_->status(); },
            kProbeGoodFor),
        configuration_(options_.config.box, {state_.path().native()}),
        policy_(options_.config.box),
        storage_(executor, state_.path() / "quota", configuration_),
        readiness_(probe_, configuration_,
                   {.unsafe_soft_limits = options_.langbot.unsafe_soft_limits,
                    .storage = [this] { return storage_.readiness(); }}),
        files_(static_cast<std::uint64_t>(options_.config.daemon.max_download_bytes)),
        sessions_(executor, *backend_, &store_, session_settings(options_.config, descriptors),
                  keeper_.get()),
        processes_(process_context(executor), sessions_,
                   process_settings(options_.config.box.limits)),
        executions_(executor, sessions_, store_, execution_settings(options_.config.daemon)) {
    if (hangup_ != Hangup::ignored) signals_.add(SIGHUP);
    backend_->set_mount_rules([this](const model::BoxSettings& box) { return rules_for(box); });
    configuration_.on_change([this](const service::BoxConfiguration& now) { follow(now); });
  }

  // When run() has failed: what another daemon left stays for the next one, and nothing of ours.
  void give_up() {
    if (!keeper_) return;
    if (inherits_) {
      backend_->abandon();
    } else {
      keeper_->quit();
    }
  }

  Task<void> run() {
    const store::Opened opened = co_await store_.open(state_.database());
    if (!opened.report.empty()) log::warning("state", "report", opened.report);
    co_await storage_.recover();
    backend::KeptEntries kept_processes = take_processes(kept_);
    if (keeper_) keeper_watch_.spawn("watch the keeper", keeper_->watch());
    processes_.expect(std::move(kept_processes));
    co_await sessions_.start(std::move(kept_));
    processes_.lose_homeless();
    co_await executions_.start();
    const api::Services services{.sessions = sessions_,
                                 .executions = executions_,
                                 .files = files_,
                                 .processes = processes_,
                                 .backend = probe_,
                                 .readiness = readiness_,
                                 .configuration = configuration_,
                                 .policy = policy_,
                                 .hosts = hosts_,
                                 .connections = [this] { return connections(); },
                                 .version = options_.version};
    api::rpc::Runtime runtime(executor_, services, configuration_, readiness_,
                              runtime_settings(options_, state_, token_, storage_));
    runtime.start();
    api::rpc::add_routes(router_, runtime);
    api::add_routes(router_, services,
                    [&runtime](const net::Exchange& exchange, const std::string& session_id,
                               const std::string& process_id) {
                      return api::rpc::refuse_relay(runtime, exchange, session_id, process_id);
                    });
    if (server_) {
      tasks_.spawn("serve", server_->run());
      log::info("listening", "host", options_.config.daemon.listen_host, "port", server_->port(),
                "sockets", join(server_->sockets(), " "), "state", state_.path().native(),
                "version", options_.version);
      if (options_.config.daemon.token_required == false) {
        log::warning("every user of this host may speak to the port: caisson.token_required");
      }
    }
    if (options_.langbot.stdio_control) {
      stdio_.emplace(executor_, duplicate(STDIN_FILENO, "standard input"),
                     duplicate(STDOUT_FILENO, "standard output"));
      tasks_.spawn("serve a host", serve_stdio(runtime));
    }
    notify_supervisor("READY=1");
    const int signal_number = co_await wait_for_signal();
    log::info("stopping", "signal", signal_number);
    notify_supervisor("STOPPING=1");
    end_at_second_signal();
    if (server_) co_await server_->stop(kGrace);
    if (stdio_) stdio_->close();
    co_await tasks_.finish();
    co_await runtime.stop();
    co_await keeper_watch_.stop();
    if (leaves_boxes_) {
      co_await processes_.abandon();
      co_await sessions_.abandon();
      co_await executions_.stop();
      backend_->abandon();
    } else {
      // A host that started us expects to find nothing of it again.
      if (host_gone_) co_await sessions_.remove_all([](const std::string&) { return true; });
      co_await sessions_.stop();
      co_await processes_.stop();
      co_await executions_.stop();
      co_await backend_->stop();
      if (keeper_) keeper_->quit();
    }
    signals_.cancel();
    log::info("stopped");
  }

 private:
  // A host's conversation by standard input and output; the daemon ends with it.
  Task<void> serve_stdio(api::rpc::Runtime& runtime) {
    const std::shared_ptr<net::Share> share = budget_->make_share();
    share->set_known(true);
    api::rpc::Connection connection(executor_, runtime, *stdio_,
                                    {.instance = options_.langbot.trusted_instance,
                                     .legacy = options_.langbot.trusted_instance.empty(),
                                     .is_parent = true,
                                     .shown_token = true,
                                     .share = share});
    co_await connection.run();
    host_gone_ = true;
    signals_.cancel();
  }

  net::ServerCounts connections() const {
    return server_ ? server_->counts() : net::ServerCounts{};
  }

  // What a host's configuration changes.
  void follow(const service::BoxConfiguration& now) {
    sessions_.set_max_sessions(static_cast<std::size_t>(now.config().limits.max_sessions));
    processes_.set_settings(process_settings(now.config().limits));
  }

  model::MountRules rules_for(const model::BoxSettings& box) const {
    model::MountRules rules = configuration_.mount_rules();
    rules.name_space = box.name_space;
    return rules;
  }

  void end_at_second_signal() {
    signals_.async_wait([this](const boost::system::error_code& error, int second) {
      if (error) return;
      if (second == kReplaceSignal || second == SIGHUP) return end_at_second_signal();
      // Boxes end with the sockets that we and the keeper hold; there is nothing to wait for.
      if (keeper_ && !leaves_boxes_) keeper_->quit();
      ::_exit(1);
    });
  }

  Task<int> wait_for_signal() {
    for (;;) {
      const auto [error, signal_number] =
          co_await signals_.async_wait(asio::as_tuple(asio::use_awaitable));
      if (host_gone_) {
        leaves_boxes_ = false;
        co_return 0;
      }
      if (error) throw boost::system::system_error(error);
      if (signal_number == SIGHUP && hangup_ == Hangup::nothing) {
        log_hangup();
        continue;
      }
      if (signal_number != kReplaceSignal) co_return signal_number;
      if (keeper_) {
        leaves_boxes_ = true;
        co_return signal_number;
      }
      log::error("another daemon wants to take over, but boxes end with this one; stop it instead");
    }
  }

  session::ProcessContext process_context(const asio::any_io_executor& executor) {
    return {.streams = {.executor = executor, .disk = disk_},
            .directory = state_.path() / "processes",
            .keeper = keeper_.get()};
  }

  asio::any_io_executor executor_;
  ServeOptions options_;
  asio::signal_set signals_;
  StateDir state_;
  const Hangup hangup_;
  TaskGroup tasks_;
  net::Router router_;
  const std::string token_;
  std::shared_ptr<net::Budget> budget_;
  std::unique_ptr<net::Server> server_;  // null: a host speaks by standard input alone
  store::AsyncStore store_;
  std::unique_ptr<backend::KeeperProcess> keeper_;  // null: boxes end with us
  TaskGroup keeper_watch_;
  backend::KeptEntries kept_;  // until it is taken over
  const bool inherits_;        // boxes of a daemon before us
  bool leaves_boxes_;
  std::optional<api::rpc::StdioChannel> stdio_;
  bool host_gone_ = false;
  std::unique_ptr<backend::Backend> backend_;
  api::BackendProbe probe_;
  service::BoxConfiguration configuration_;
  const service::Policy policy_;
  Storage storage_;
  api::Readiness readiness_;
  api::HostCounts hosts_;
  session::Files files_;
  session::Registry sessions_;
  journal::Disk disk_;
  session::Processes processes_;
  session::Executions executions_;
};

}  // namespace

int serve(ServeOptions options, const MakeBackend& make_backend) {
  const std::size_t descriptors = raise_descriptor_limit();
  report_room(descriptors, options.config);
  asio::io_context io(1);
  Daemon daemon(io.get_executor(), std::move(options), make_backend, descriptors);
  std::exception_ptr failure;
  asio::co_spawn(io, daemon.run(), [&](const std::exception_ptr& error) {
    failure = error;
    io.stop();  // what is left waits for boxes that are somebody else's now
  });
  io.run();
  if (failure) {
    daemon.give_up();
    std::rethrow_exception(failure);
  }
  return 0;
}

}  // namespace caisson::daemon
