#pragma once
#include <boost/json/object.hpp>
#include <functional>
#include <optional>
#include <string>

#include "api/api.h"
#include "async/task.h"
#include "base/clock.h"
#include "service/box_configuration.h"

namespace caisson::api {

// Whether directories of tenants are bound by the kernel, and if not, why.
struct StorageReadiness {
  bool workspaces = false;
  bool skills = false;
  bool inodes = false;
  std::string reason;
};

// Whether boxes can be had, as probes and LangBot's hosts ask. Where admission is required,
// whatever keeps tenants apart must be in force before anybody is admitted.
class Readiness {
 public:
  struct Settings {
    bool unsafe_soft_limits = false;  // the operator accepts that storage is not bound
    std::function<Task<StorageReadiness>()> storage;  // asked in admission mode
  };

  // Everything referred to outlives it.
  Readiness(BackendProbe& backend, const service::BoxConfiguration& configuration,
            Settings settings)
      : backend_(backend), configuration_(configuration), settings_(std::move(settings)) {}

  // {"ready": ..., "mode": ..., "backend": ..., "checks": ...}, as LangBot's runtime reports it.
  // The last one, while it is fresh.
  Task<boost::json::object> report();
  // Name, availability and, in admission mode, the report.
  Task<boost::json::object> backend_info();
  // Throws not_ready with the checks that fail.
  Task<void> check();
  // Throws backend_unavailable when the configuration asks for a backend that is not there.
  void check_backend() const;
  void forget() { last_.reset(); }  // the configuration has changed

 private:
  Task<boost::json::object> standard_report();
  Task<boost::json::object> strict_report();

  BackendProbe& backend_;
  const service::BoxConfiguration& configuration_;
  const Settings settings_;
  std::optional<boost::json::object> last_;
  Deadline asked_{};
};

}  // namespace caisson::api
