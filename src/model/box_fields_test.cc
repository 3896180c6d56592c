#include "model/box_fields.h"

#include <gmock/gmock.h>

#include <boost/json/serialize.hpp>
#include <functional>
#include <utility>

#include "model/refusal_for_test.h"

namespace caisson::model {
namespace {

using Change = std::function<void(BoxSettings&)>;

// One of every setting.
const std::pair<std::string, Change> kChanges[] = {
    {"network", [](BoxSettings& s) { s.network = NetworkMode::on; }},
    {"image", [](BoxSettings& s) { s.image = "other"; }},
    {"host_path", [](BoxSettings& s) { s.host_path = "/tmp"; }},
    {"host_path_mode", [](BoxSettings& s) { s.host_path_mode = MountMode::ro; }},
    {"mount_path", [](BoxSettings& s) { s.mount_path = "/code"; }},
    {"extra_mounts",
     [](BoxSettings& s) {
       s.extra_mounts = {{"/a", "/b"}};
     }},
    {"persistent", [](BoxSettings& s) { s.persistent = true; }},
    {"cpus", [](BoxSettings& s) { s.cpus = 1.0 / 3; }},
    {"memory_mb", [](BoxSettings& s) { s.memory_mb = 64; }},
    {"pids_limit", [](BoxSettings& s) { s.pids_limit = 9; }},
    {"read_only_rootfs", [](BoxSettings& s) { s.read_only_rootfs = false; }},
    {"workspace_quota_mb", [](BoxSettings& s) { s.workspace_quota_mb = 5; }},
};

TEST(BoxFields, AreAllTheSettingsThereAre) {
  std::vector<std::string> names;
  for_each_setting([&](const auto& field) { names.emplace_back(field.name); });
  std::vector<std::string> changed;
  for (const auto& [name, change] : kChanges) changed.push_back(name);
  EXPECT_EQ(names, changed);
}

TEST(BoxFields, AreKeptExactly) {
  for (const auto& [name, change] : kChanges) {
    BoxSettings settings;
    change(settings);
    const boost::json::object kept = to_exact_json(settings);
    EXPECT_EQ(read_box_settings(parse_json(boost::json::serialize(kept))), settings) << name;
  }
}

TEST(BoxFields, TellTheFirstSettingThatDiffersAndWhatTheSessionHas) {
  EXPECT_EQ(first_difference({}, {}), std::nullopt);
  for (const auto& [name, change] : kChanges) {
    BoxSettings wanted;
    change(wanted);
    const std::optional<Difference> difference = first_difference({}, wanted);
    // Mounts come and go in a box that lives.
    ASSERT_EQ(difference.has_value(), name != "extra_mounts") << name;
    if (!difference) continue;
    EXPECT_EQ(difference->name, name);
    EXPECT_EQ(difference->existing, to_json(BoxSettings()).at(name)) << name;
  }
}

TEST(BoxFields, TakeSpellingsOfAnImageForTheSame) {
  EXPECT_EQ(first_difference({}, {.image = "host"}), std::nullopt);
  EXPECT_EQ(kind_of({.image = "host"}), BoxSettings());
}

TEST(BoxFields, TellWhichBoxesAreOfAKind) {
  for (const auto& [name, change] : kChanges) {
    BoxSettings settings;
    change(settings);
    const bool of_the_host = name == "host_path" || name == "host_path_mode" ||
                             name == "extra_mounts" || name == "persistent" ||
                             name == "workspace_quota_mb";
    EXPECT_EQ(kind_of(settings), of_the_host ? BoxSettings() : settings) << name;
  }
}

TEST(BoxFields, HaveASchemaWithTheirDefaultsAndBounds) {
  const boost::json::object schema = request_schema();
  EXPECT_EQ(schema.at("memory_mb"),
            parse_json(R"({"type": "integer", "minimum": 32, "default": 512})"));
  EXPECT_EQ(schema.at("cpus"),
            parse_json(R"({"type": "number", "exclusiveMinimum": 0, "default": 1E0})"));
  EXPECT_EQ(schema.at("network"), parse_json(R"({"enum": ["off", "on"], "default": "off"})"));
  EXPECT_EQ(schema.at("mount_path"), parse_json(R"({"type": "string", "default": "/workspace"})"));
  EXPECT_EQ(schema.at("workdir"), parse_json(R"({"type": "string",
    "description": "Absolute; mount_path when absent."})"));
  EXPECT_FALSE(schema.contains("session_id"));
  EXPECT_FALSE(session_schema().contains("extra_mounts"));
  EXPECT_EQ(session_schema().at("persistent"), parse_json(R"({"type": "boolean"})"));
}

}  // namespace
}  // namespace caisson::model
