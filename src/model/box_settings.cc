#include "model/box_settings.h"

#include "base/path.h"
#include "base/str.h"
#include "base/text.h"
#include "model/field_rules.h"
#include "model/object_reader.h"
#include "model/tree_manifest.h"

namespace caisson::model {

namespace json = boost::json;

namespace {

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

json::object to_json(const MountSpec& mount) {
  json::object object{{"host_path", mount.host_path},
                      {"mount_path", mount.mount_path},
                      {"mode", to_string(mount.mode)}};
  if (mount.content_digest) object["content_digest"] = *mount.content_digest;
  if (mount.manifest_path) object["manifest_path"] = *mount.manifest_path;
  return object;
}

}  // namespace caisson::model
