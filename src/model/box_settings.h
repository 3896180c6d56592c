#pragma once
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace caisson::model {

enum class NetworkMode { off, on };
enum class MountMode { none, ro, rw };

std::string_view to_string(NetworkMode mode);
std::string_view to_string(MountMode mode);

inline constexpr std::string_view kDefaultMountPath = "/workspace";
// Of the user in a box, who can always write there.
inline constexpr char kBoxHome[] = "/home/box";

// The least a box can be given, and the most that has a meaning. A greater number is accepted and
// taken as the most, so that bytes and nanoseconds always fit 64 bits further down.
inline constexpr std::int64_t kMinMemoryMb = 32;
inline constexpr std::int64_t kMaxMegabytes = std::int64_t{1} << 40;
inline constexpr std::int64_t kMaxPidsLimit = 4'194'304;  // PID_MAX_LIMIT of 64-bit kernels
inline constexpr double kMaxCpus = 8192;                  // NR_CPUS of the largest kernels

inline constexpr std::string_view kDefaultImage = "rockchin/langbot-sandbox:latest";

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

MountSpec read_mount_spec(const boost::json::value& value, const std::string& path);
boost::json::object to_json(const MountSpec& mount);

// What a box is like, whichever commands run in it. box_fields.h says of each setting what it may
// be and what it is used for.
struct BoxSettings {
  NetworkMode network = NetworkMode::off;
  std::string image{kDefaultImage};
  std::optional<std::string> host_path = {};  // shown at `mount_path` unless the mode is `none`
  MountMode host_path_mode = MountMode::rw;
  std::string mount_path{kDefaultMountPath};
  std::vector<MountSpec> extra_mounts = {};
  bool persistent = false;
  double cpus = 1.0;
  std::int64_t memory_mb = 512;
  std::int64_t pids_limit = 128;
  bool read_only_rootfs = true;
  std::int64_t workspace_quota_mb = 0;  // 0: no quota
  // Of the workspace that the box is for; empty: none. Not the caller's to say.
  std::string name_space = {};
  bool operator==(const BoxSettings&) const = default;
};

}  // namespace caisson::model
