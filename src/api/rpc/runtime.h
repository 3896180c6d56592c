#pragma once
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/thread_pool.hpp>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "api/api.h"
#include "api/readiness.h"
#include "api/rpc/box_request.h"
#include "api/rpc/domain.h"
#include "api/rpc/door.h"
#include "async/blocking.h"
#include "async/task.h"
#include "async/task_group.h"
#include "async/turns.h"
#include "service/box_configuration.h"
#include "session/admission.h"
#include "session/tenancy.h"

namespace caisson::api::rpc {

struct RuntimeSettings {
  DoorSettings door;
  bool accepts_mount_roots = false;  // and directories of any host; else only with a token
  std::filesystem::path directory;   // for files that are being sent
  // Binds a directory of a tenant to so many megabytes, on the disk; may be empty.
  std::function<Task<void>(std::filesystem::path directory, std::int64_t megabytes)> limit_storage;
  std::int64_t skill_quota_mb = 0;
};

// What all hosts that are connected share: who they may be, for whom they act, and what they may
// do.
class Runtime {
 public:
  // Everything referred to outlives it.
  Runtime(const boost::asio::any_io_executor& executor, const Services& services,
          service::BoxConfiguration& configuration, Readiness& readiness, RuntimeSettings settings);

  // Begins to end the sessions of grants that expire.
  void start();
  Task<void> stop();

  Door& door() { return door_; }
  const Services& services() const { return services_; }
  const service::BoxConfiguration& configuration() const { return configuration_; }
  Readiness& readiness() { return readiness_; }
  const session::Admission& admission() const { return admission_; }
  NameBook& names() { return names_; }
  const RuntimeSettings& settings() const { return settings_; }

  // Whoever acts for this tenant may go on: it is admitted, where that is asked for, and its
  // generation is the highest; sessions of lower ones are gone when this returns. Throws not_ready,
  // admission_refused, forbidden.
  Task<void> enter(session::Tenant tenant, bool needs_admission);
  // After the work: throws forbidden when a higher generation has come meanwhile.
  Task<void> leave(session::Tenant tenant);
  bool is_current(const std::string& name_space, std::int64_t generation) const {
    return fence_.find(name_space) == generation;
  }

  // A host's configuration. Throws a ValueError for what is wrong in it and mount_refused for a
  // directory that the host may not name; nothing has changed then.
  void initialise(const boost::json::object& submitted, service::BoxConfiguration::Sender sender);

  Task<model::AdmissionGrant> install(model::AdmissionGrant grant);
  Task<void> revoke(model::AdmissionRevocation revocation);

  // The box that a tenant's call is about, where admission is required: made what the policy says.
  Task<model::BoxRequest> admit(HostRequest request, session::Tenant tenant);

  // Work of the skill store, one at a time, beside the event loop.
  template <typename Work>
  Task<std::invoke_result_t<Work>> with_skills(Work work) {
    const std::optional<Turns::Turn> turn = co_await skills_.take();
    co_return co_await run_blocking(pool_, std::move(work));
  }
  // Looks at other directories, one at a time, beside the event loop and the skill store.
  template <typename Work>
  Task<std::invoke_result_t<Work>> with_disk(Work work) {
    const std::optional<Turns::Turn> turn = co_await disk_.take();
    co_return co_await run_blocking(pool_, std::move(work));
  }

 private:
  Task<void> remove_others(std::string name_space, std::int64_t generation);
  Task<void> remove_workspace(std::string name_space);
  Task<void> expire_grants();
  Task<void> run_housekeeping();
  std::size_t max_records() const;

  const Services services_;
  service::BoxConfiguration& configuration_;
  Readiness& readiness_;
  const RuntimeSettings settings_;
  Door door_;
  session::GenerationFence fence_;
  session::Admission admission_;
  NameBook names_;
  Turns skills_;
  Turns disk_;
  boost::asio::thread_pool pool_{2};  // one for each
  TaskGroup tasks_;
};

}  // namespace caisson::api::rpc
