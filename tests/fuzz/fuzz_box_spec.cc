// A request for a box, as any client may send it: refused as a validation_error, or read into
// values that the JSON that is kept of them gives again.
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "fuzz.h"
#include "model/box_request.h"

namespace {

using caisson::model::BoxRequest;
using caisson::model::MountMode;

// What the rest of the program relies on without looking again.
bool is_sound(const BoxRequest& request) {
  const auto clean = [](const std::string& text) { return text.find('\0') == std::string::npos; };
  const auto absolute = [&](const std::string& path) {
    return path.starts_with('/') && clean(path);
  };
  for (const auto& mount : request.box.extra_mounts) {
    if (!absolute(mount.mount_path) || mount.host_path.empty() || !clean(mount.host_path)) {
      return false;
    }
  }
  for (const auto& [name, value] : request.command.env) {
    if (name.empty() || name.find('=') != std::string::npos || !clean(name) || !clean(value)) {
      return false;
    }
  }
  return !request.session_id.empty() && clean(request.session_id) && clean(request.command.cmd) &&
         absolute(request.command.workdir) && absolute(request.box.mount_path) &&
         request.command.timeout_sec > 0 &&
         request.command.timeout_sec <= caisson::model::kMaxTimeoutSec && request.box.cpus > 0 &&
         request.box.cpus <= caisson::model::kMaxCpus &&
         request.box.memory_mb >= caisson::model::kMinMemoryMb &&
         request.box.memory_mb <= caisson::model::kMaxMegabytes && request.box.pids_limit >= 1 &&
         request.box.pids_limit <= caisson::model::kMaxPidsLimit &&
         request.box.workspace_quota_mb >= 0;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  boost::system::error_code error;
  const boost::json::value value = boost::json::parse(caisson::fuzz::text(data, size), error);
  if (error) return 0;
  try {
    const BoxRequest request = caisson::model::read_box_request(value);
    caisson::fuzz::require(is_sound(request));
    const boost::json::value kept = boost::json::parse(serialize(to_exact_json(request.box)));
    caisson::fuzz::require(caisson::model::read_box_settings(kept) == request.box);
    const boost::json::value again = boost::json::parse(serialize(to_json(request)));
    caisson::fuzz::require(caisson::model::read_box_request(again).command == request.command);
  } catch (const caisson::Error& refused) {
    caisson::fuzz::require(refused.code() == caisson::ErrorCode::validation_error);
  }
  return 0;
}
