#include "daemon/storage.h"

#include <optional>
#include <utility>

#include "async/blocking.h"
#include "base/error.h"
#include "base/log.h"
#include "base/str.h"

namespace caisson::daemon {

namespace fs = std::filesystem;

namespace {

constexpr std::int64_t kMegabyte = 1 << 20;

}  // namespace

Storage::Storage(const boost::asio::any_io_executor& executor, fs::path state,
                 const service::BoxConfiguration& configuration)
    : state_(std::move(state)), configuration_(configuration), turns_(executor) {}

quota::Limit Storage::limit_of(std::int64_t megabytes) const {
  return {.bytes = static_cast<std::uint64_t>(megabytes * kMegabyte),
          .inodes = static_cast<std::uint64_t>(configuration_.config().max_workspace_entries)};
}

Task<Storage::Choice> Storage::choose(fs::path root) {
  const quota::ChooseOptions options{.state = state_, .inodes_required = true};
  quota::Choice found =
      co_await run_blocking(pool_, [root, options] { return quota::choose(root, options); });
  if (found.driver) {
    auto& driver = drivers_[std::string(found.driver->name())];
    if (!driver) driver = std::move(found.driver);
    co_return Choice{.driver = driver, .why = {}};
  }
  std::string why = str("no storage quota can be enforced below ", root.native());
  for (const quota::Candidate& candidate : found.candidates) {
    why += str("; ", candidate.name, ": ", candidate.why);
  }
  co_return Choice{.driver = nullptr, .why = std::move(why)};
}

Task<void> Storage::recover() {
  const std::optional<Turns::Turn> turn = co_await turns_.take();
  std::error_code error;
  if (!fs::exists(state_, error)) co_return;  // nothing was ever limited
  co_await choose(configuration_.skills_root());
  if (const auto workspaces = configuration_.default_workspace()) co_await choose(*workspaces);
  const auto drivers = drivers_;
  for (const auto& [name, driver] : drivers) {
    const quota::Recovery found =
        co_await run_blocking(pool_, [driver = driver] { return driver->recover(); });
    for (const fs::path& directory : found.limited) {
      log::info("storage quota in force again", "driver", name, "directory", directory.native());
    }
    for (const std::string& problem : found.problems) {
      log::warning("storage quota", "driver", name, "problem", problem);
    }
  }
}

Task<api::StorageReadiness> Storage::readiness() {
  const std::optional<Turns::Turn> turn = co_await turns_.take();
  api::StorageReadiness ready;
  const std::optional<fs::path> workspaces = configuration_.default_workspace();
  const Choice choice = co_await choose(workspaces ? *workspaces : configuration_.skills_root());
  const Choice for_skills = co_await choose(configuration_.skills_root());
  const bool quota = configuration_.config().admission.policy.workspace_quota_mb > 0;
  ready.workspaces = quota && workspaces && choice.driver && choice.driver->enforces().bytes;
  ready.skills = for_skills.driver && for_skills.driver->enforces().bytes;
  ready.inodes = choice.driver && choice.driver->enforces().inodes && for_skills.driver &&
                 for_skills.driver->enforces().inodes;
  ready.reason = !choice.driver       ? choice.why
                 : !for_skills.driver ? for_skills.why
                 : !quota             ? "box.admission.workspace_quota_mb is 0: set how much a "
                                        "workspace may hold"
                                      : "";
  co_return ready;
}

Task<void> Storage::limit(fs::path directory, std::int64_t megabytes) {
  const quota::Limit wanted = limit_of(megabytes);
  const auto found = applied_.find(directory.native());
  if (found != applied_.end() && found->second == wanted) co_return;
  const std::optional<Turns::Turn> turn = co_await turns_.take();
  const Choice choice = co_await choose(directory);
  if (!choice.driver) throw Error(ErrorCode::not_ready, choice.why);
  co_await run_blocking(pool_, [driver = choice.driver, directory, wanted] {
    driver->apply(directory, wanted);
    return true;
  });
  applied_[directory.native()] = wanted;
}

}  // namespace caisson::daemon
