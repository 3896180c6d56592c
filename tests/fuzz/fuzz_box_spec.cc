// A box's specification, as any client may send it: refused as a validation_error, or read into a
// value that the JSON that is kept of it gives again.
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "fuzz.h"
#include "model/box_spec.h"

namespace {

using caisson::model::BoxSpec;
using caisson::model::MountMode;

// What the rest of the program relies on without looking again.
bool is_sound(const BoxSpec& spec) {
  const auto clean = [](const std::string& text) { return text.find('\0') == std::string::npos; };
  const auto absolute = [&](const std::string& path) {
    return path.starts_with('/') && clean(path);
  };
  for (const auto& mount : spec.extra_mounts) {
    if (!absolute(mount.mount_path) || mount.host_path.empty() || !clean(mount.host_path)) {
      return false;
    }
  }
  for (const auto& [name, value] : spec.env) {
    if (name.empty() || name.find('=') != std::string::npos || !clean(name) || !clean(value)) {
      return false;
    }
  }
  return !spec.session_id.empty() && clean(spec.session_id) && clean(spec.cmd) &&
         absolute(spec.workdir) && absolute(spec.mount_path) && spec.timeout_sec > 0 &&
         spec.timeout_sec <= caisson::model::kMaxTimeoutSec && spec.cpus > 0 &&
         spec.cpus <= caisson::model::kMaxCpus && spec.memory_mb >= caisson::model::kMinMemoryMb &&
         spec.memory_mb <= caisson::model::kMaxMegabytes && spec.pids_limit >= 1 &&
         spec.pids_limit <= caisson::model::kMaxPidsLimit && spec.workspace_quota_mb >= 0;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  boost::system::error_code error;
  const boost::json::value value = boost::json::parse(caisson::fuzz::text(data, size), error);
  if (error) return 0;
  try {
    const BoxSpec spec = caisson::model::read_box_spec(value);
    caisson::fuzz::require(is_sound(spec));
    const boost::json::value again = boost::json::parse(serialize(to_exact_json(spec)));
    caisson::fuzz::require(caisson::model::read_box_spec(again) == spec);
  } catch (const caisson::Error& refused) {
    caisson::fuzz::require(refused.code() == caisson::ErrorCode::validation_error);
  }
  return 0;
}
