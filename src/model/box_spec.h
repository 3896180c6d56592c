#pragma once
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace caisson::model {

enum class NetworkMode { off, on };
enum class MountMode { none, ro, rw };

std::string_view to_string(NetworkMode mode);
std::string_view to_string(MountMode mode);

inline constexpr std::string_view kDefaultImage = "rockchin/langbot-sandbox:latest";
inline constexpr std::string_view kDefaultMountPath = "/workspace";
// Of the user in a box, who can always write there.
inline constexpr char kBoxHome[] = "/home/box";
inline constexpr std::int64_t kDefaultTimeoutSec = 30;

// The least a box can be given, and the most that has a meaning. A greater number is accepted and
// taken as the most, so that bytes and nanoseconds always fit 64 bits further down.
inline constexpr std::int64_t kMinMemoryMb = 32;
inline constexpr std::int64_t kMaxMegabytes = std::int64_t{1} << 40;
inline constexpr std::int64_t kMaxTimeoutSec = 1'000'000'000;
inline constexpr std::int64_t kMaxPidsLimit = 4'194'304;  // PID_MAX_LIMIT of 64-bit kernels
inline constexpr double kMaxCpus = 8192;                  // NR_CPUS of the largest kernels

// Where a box is shown trees of files by the digest of their content, each at ROOT/DIGITS.
inline constexpr char kArtifactRoot[] = "/opt/langbot-artifacts";

// A host directory shown in the box. `host_path` may be a Windows path; `mount_path` is normal.
struct MountSpec {
  std::string host_path;
  std::string mount_path;
  MountMode mode = MountMode::rw;
  std::optional<std::string> content_digest = {};  // "sha256:...", of the manifest
  std::optional<std::string> manifest_path = {};   // on the host
  // What is shown is then the content with that digest, and not what the directory holds: it comes
  // and goes while the box lives.
  bool is_artifact() const;
  bool operator==(const MountSpec&) const = default;
};

// What `extra_mounts` mean to a box that lives. Artifacts come and go in any case.
enum class Mounting {
  fixed,    // it has just these, or it is not the box that is asked for
  follows,  // it is given just these: hosts before SDK 0.6, which name a skill with every spec
  unsaid,   // whatever it has
};

// All that a caller may say about a box and the command to run in it. A spec that came from
// read_box_spec() has been validated: its paths are absolute and normal, its numbers in range, and
// no string in it contains a NUL.
struct BoxSpec {
  std::string session_id;
  std::string cmd;
  std::string workdir{kDefaultMountPath};
  std::int64_t timeout_sec = kDefaultTimeoutSec;
  NetworkMode network = NetworkMode::off;
  std::map<std::string, std::string> env;
  std::string image{kDefaultImage};
  std::optional<std::string> host_path;  // shown at `mount_path` unless the mode is `none`
  MountMode host_path_mode = MountMode::rw;
  std::string mount_path{kDefaultMountPath};
  std::vector<MountSpec> extra_mounts;
  std::optional<std::string> skill_name;
  bool persistent = false;
  double cpus = 1.0;
  std::int64_t memory_mb = 512;
  std::int64_t pids_limit = 128;
  bool read_only_rootfs = true;
  std::int64_t workspace_quota_mb = 0;  // 0: no quota
  Mounting mounting = Mounting::unsaid;
  bool operator==(const BoxSpec&) const = default;
};

// Reads and validates in the order of LangBot's model, so that of several faults the same one is
// reported.
enum class Leniency {
  lenient,  // unknown fields are ignored: newer hosts send fields that older runtimes do not know
  strict,   // they are refused, and so are paths of mounts that are not in their normal form
};
BoxSpec read_box_spec(const boost::json::value& value, Leniency leniency = Leniency::lenient);
MountSpec read_mount_spec(const boost::json::value& value, const std::string& path);

boost::json::object to_json(const BoxSpec& spec);
// For keeping: what read_box_spec() makes of it is the same to the last bit.
boost::json::object to_exact_json(const BoxSpec& spec);
boost::json::object to_json(const MountSpec& mount);

}  // namespace caisson::model
