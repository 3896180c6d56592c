#include "model/box_spec.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/value_from.hpp>
#include <charconv>
#include <cmath>

#include "base/path.h"
#include "base/str.h"
#include "base/text.h"
#include "base/unicode.h"
#include "model/field_rules.h"
#include "model/object_reader.h"
#include "model/tree_manifest.h"

namespace caisson::model {

namespace {
namespace json = boost::json;

constexpr std::size_t kMaxSkillNameLength = 64;

std::int64_t at_least(ObjectReader& reader, std::string_view name, std::int64_t fallback,
                      std::int64_t least, std::int64_t most, std::string_view sentence) {
  const std::int64_t value = reader.optional(name, fallback);
  if (value < least) refuse(str(name, ' ', sentence));
  return std::min(value, most);
}

// A workdir that is absent, null or "" follows a mount path that was given.
std::string read_workdir(ObjectReader& reader) {
  const json::value* workdir = reader.find("workdir");
  const json::value* mount_path = reader.find("mount_path");
  const bool unset = workdir == nullptr || workdir->is_null() ||
                     (workdir->is_string() && workdir->get_string().empty());
  const bool mounted =
      mount_path != nullptr && mount_path->is_string() && !trim(mount_path->get_string()).empty();
  // A fault in it is then one of the field that the caller sent.
  if (unset && mounted) return box_path(reader.required<std::string>("mount_path"), "mount_path");
  return box_path(reader.optional("workdir", std::string(kDefaultMountPath)), "workdir");
}

std::optional<std::string> read_skill_name(ObjectReader& reader) {
  const std::optional<std::string> text = reader.nullable<std::string>("skill_name");
  const std::string name(trim(text.value_or("")));
  if (name.empty()) return std::nullopt;
  const std::u32string characters = to_utf32(name);
  const bool fits = std::all_of(characters.begin(), characters.end(), [](char32_t c) {
    return is_alphanumeric(c) || c == U'-' || c == U'_';
  });
  const bool named = std::any_of(characters.begin(), characters.end(), is_alphanumeric);
  if (!fits || !named || characters.size() > kMaxSkillNameLength) {
    refuse("skill_name can only contain up to 64 letters, numbers, hyphens and underscores");
  }
  return name;
}

double read_cpus(ObjectReader& reader, double fallback) {
  const double cpus = reader.optional("cpus", fallback);
  if (!std::isfinite(cpus)) refuse("cpus must be a finite number");
  if (cpus <= 0) refuse("cpus must be greater than 0");
  return std::min(cpus, kMaxCpus);
}

std::optional<std::string> read_digest(ObjectReader& reader) {
  const std::optional<std::string> text = reader.nullable<std::string>("content_digest");
  if (!text) return std::nullopt;
  std::string digest(trim(*text));
  if (!digest.starts_with(kDigestPrefix)) refuse("content_digest must use sha256:<hex>");
  if (!are_digits(digits_of(digest))) {
    refuse("content_digest must use sha256:<64 lowercase hex>");
  }
  return digest;
}

void read_mounts(ObjectReader& reader, BoxSpec& spec) {
  if (const auto path = reader.nullable<std::string>("host_path"))
    spec.host_path = host_path(*path);
  spec.host_path_mode = reader.choice("host_path_mode", spec.host_path_mode,
                                      {MountMode::none, MountMode::ro, MountMode::rw});
  spec.mount_path = box_path(reader.optional("mount_path", spec.mount_path), "mount_path");
  for (const ObjectReader::Element& element : reader.elements("extra_mounts")) {
    spec.extra_mounts.push_back(read_mount_spec(*element.value, element.path));
  }
}

// Of mounts that have been read.
void check_normal_mounts(ObjectReader& reader) {
  for (const ObjectReader::Element& element : reader.elements("extra_mounts")) {
    const std::string_view path = trim(element.value->at("mount_path").as_string());
    if (normalise_path(path) != path) refuse(str(element.path, ".mount_path must be normalized"));
  }
}

void read_limits_of_box(ObjectReader& reader, BoxSpec& spec) {
  spec.cpus = read_cpus(reader, spec.cpus);
  spec.memory_mb = at_least(reader, "memory_mb", spec.memory_mb, kMinMemoryMb, kMaxMegabytes,
                            "must be at least 32");
  spec.pids_limit =
      at_least(reader, "pids_limit", spec.pids_limit, 1, kMaxPidsLimit, "must be at least 1");
  spec.read_only_rootfs = reader.optional("read_only_rootfs", spec.read_only_rootfs);
  spec.workspace_quota_mb = at_least(reader, "workspace_quota_mb", spec.workspace_quota_mb, 0,
                                     kMaxMegabytes, "must be greater than or equal to 0");
}
}  // namespace

std::string_view to_string(NetworkMode mode) {
  return mode == NetworkMode::on ? "on" : "off";
}

std::string_view to_string(MountMode mode) {
  switch (mode) {
    case MountMode::none:
      return "none";
    case MountMode::ro:
      return "ro";
    case MountMode::rw:
      return "rw";
  }
  return "none";
}

bool MountSpec::is_artifact() const {
  return mode == MountMode::ro && content_digest && manifest_path &&
         mount_path == str(kArtifactRoot, "/", digits_of(*content_digest));
}

MountSpec read_mount_spec(const json::value& value, const std::string& path) {
  ObjectReader reader(value, path);
  MountSpec mount;
  mount.host_path = host_path(reader.required<std::string>("host_path"), path);
  mount.mount_path = box_path(reader.required<std::string>("mount_path"), "mount_path", path);
  mount.mode = reader.choice("mode", mount.mode, {MountMode::none, MountMode::ro, MountMode::rw});
  mount.content_digest = read_digest(reader);
  if (const auto manifest = reader.nullable<std::string>("manifest_path")) {
    mount.manifest_path = host_path(*manifest, path, "manifest_path");
  }
  if (is_within(mount.mount_path, kArtifactRoot) && !mount.is_artifact()) {
    refuse("Artifact paths require a read-only digest-addressed mount and manifest");
  }
  return mount;
}

BoxSpec read_box_spec(const json::value& value, Leniency leniency) {
  ObjectReader reader(value, "");
  BoxSpec spec;
  spec.cmd = trim(reader.optional("cmd", spec.cmd));
  spec.workdir = read_workdir(reader);
  spec.timeout_sec = at_least(reader, "timeout_sec", spec.timeout_sec, 1, kMaxTimeoutSec,
                              "must be greater than 0");
  spec.network = reader.choice("network", spec.network, {NetworkMode::off, NetworkMode::on});
  spec.session_id = trim(reader.required<std::string>("session_id"));
  if (spec.session_id.empty()) refuse("session_id must not be empty");
  check_text(spec.session_id, "session_id");
  spec.env = reader.optional("env", spec.env);
  check_environment(spec.env, "env");
  spec.image = reader.optional("image", spec.image);
  read_mounts(reader, spec);
  if (leniency == Leniency::strict) check_normal_mounts(reader);
  spec.mounting = reader.has("skill_name")     ? Mounting::follows
                  : reader.has("extra_mounts") ? Mounting::fixed
                                               : Mounting::unsaid;
  spec.skill_name = read_skill_name(reader);
  spec.persistent = reader.optional("persistent", spec.persistent);
  read_limits_of_box(reader, spec);
  const bool mounted = spec.host_path && spec.host_path_mode != MountMode::none;
  if (mounted && !is_within(spec.workdir, spec.mount_path)) {
    refuse("workdir must stay under mount_path when host_path is provided");
  }
  if (leniency == Leniency::strict) reader.reject_unknown_fields();
  return spec;
}

json::object to_json(const MountSpec& mount) {
  json::object object{{"host_path", mount.host_path},
                      {"mount_path", mount.mount_path},
                      {"mode", to_string(mount.mode)}};
  if (mount.content_digest) object["content_digest"] = *mount.content_digest;
  if (mount.manifest_path) object["manifest_path"] = *mount.manifest_path;
  return object;
}

// The JSON parser may miss the last bit of a fraction. As text it is exact, and the reader takes
// it.
json::object to_exact_json(const BoxSpec& spec) {
  json::object object = to_json(spec);
  char buffer[32];
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, spec.cpus);
  if (error == std::errc()) object["cpus"] = std::string_view(buffer, end);
  return object;
}

json::object to_json(const BoxSpec& spec) {
  json::array extra_mounts;
  for (const MountSpec& mount : spec.extra_mounts) extra_mounts.push_back(to_json(mount));
  json::object object{{"session_id", spec.session_id},
                      {"cmd", spec.cmd},
                      {"workdir", spec.workdir},
                      {"timeout_sec", spec.timeout_sec},
                      {"network", to_string(spec.network)},
                      {"env", json::value_from(spec.env)},
                      {"image", spec.image},
                      {"host_path", json::value_from(spec.host_path)},
                      {"host_path_mode", to_string(spec.host_path_mode)},
                      {"mount_path", spec.mount_path},
                      {"extra_mounts", std::move(extra_mounts)},
                      {"persistent", spec.persistent},
                      {"cpus", spec.cpus},
                      {"memory_mb", spec.memory_mb},
                      {"pids_limit", spec.pids_limit},
                      {"read_only_rootfs", spec.read_only_rootfs},
                      {"workspace_quota_mb", spec.workspace_quota_mb}};
  if (spec.mounting == Mounting::follows) object["skill_name"] = json::value_from(spec.skill_name);
  if (spec.mounting == Mounting::unsaid && spec.extra_mounts.empty()) object.erase("extra_mounts");
  return object;
}

}  // namespace caisson::model
