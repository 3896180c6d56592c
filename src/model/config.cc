#include "model/config.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/value_from.hpp>

#include "base/str.h"
#include "base/text.h"
#include "model/config_fields.h"
#include "model/object_reader.h"

namespace caisson::model {

namespace {
namespace json = boost::json;

constexpr std::int64_t kMaxWorkspaceEntries = 1'000'000;
constexpr std::int64_t kMaxLifecycleConcurrency = 128;

const json::value& empty_tree() {
  static const json::value empty = json::object();
  return empty;
}

// LangBot turns boxes off only for a clear no; everything else is on.
bool read_enabled(ObjectReader& reader, bool fallback) {
  const json::value* value = reader.find("enabled");
  if (value == nullptr) return fallback;
  if (const bool* flag = value->if_bool()) return *flag;
  if (value->is_int64()) return value->get_int64() != 0;
  if (!value->is_string()) return true;
  const std::string word = to_lower(trim(value->get_string()));
  return !(word == "false" || word == "0" || word == "no" || word == "off" || word.empty());
}

std::optional<std::int64_t> read_quota(ObjectReader& reader, std::optional<std::int64_t> fallback) {
  const json::value* value = reader.find("workspace_quota_mb");
  if (value == nullptr) return fallback;
  if (value->is_null() || (value->is_string() && value->get_string().empty())) return std::nullopt;
  const std::optional<std::int64_t> quota = to_integer(*value);
  if (!quota) refuse("workspace_quota_mb must be an integer greater than or equal to 0");
  if (*quota < 0) refuse("workspace_quota_mb must be greater than or equal to 0");
  return std::min(*quota, kMaxMegabytes);
}

LocalConfig read_local(ObjectReader& reader, const LocalConfig& current) {
  LocalConfig local;
  local.profile = get_profile(text_or(reader, "profile", current.profile)).name;
  local.image = text_or(reader, "image", current.image);
  const std::string host_root = text_or(reader, "host_root", current.host_root.value_or(""));
  local.host_root = host_root.empty() ? std::nullopt : std::optional(host_root);
  local.default_workspace = text_or(reader, "default_workspace", current.default_workspace);
  local.skills_root = text_or(reader, "skills_root", current.skills_root);
  if (local.skills_root.empty()) local.skills_root = "skills";
  if (reader.has("allowed_mount_roots")) {
    local.allowed_mount_roots = read_list(reader, "allowed_mount_roots");
  } else if (!reader.has_value("host_root")) {
    local.allowed_mount_roots = current.allowed_mount_roots;
  }
  local.workspace_quota_mb = read_quota(reader, current.workspace_quota_mb);
  return local;
}

E2bConfig read_e2b(ObjectReader& reader, const E2bConfig& current) {
  return {.api_key = text_or(reader, "api_key", current.api_key),
          .api_url = text_or(reader, "api_url", current.api_url),
          .template_id = text_or(reader, "template", current.template_id)};
}

NativeConfig read_native(ObjectReader& reader, const NativeConfig& current) {
  NativeConfig native = current;
  native.answer_as = text_or(reader, "answer_as", current.answer_as);
  if (!native.answer_as.empty() && native.answer_as != "native" && native.answer_as != "nsjail") {
    reader.fail("answer_as", "must be native or nsjail");
  }
  if (reader.has("allow_missing")) {
    native.allow_missing.clear();
    for (const std::string& name : read_list(reader, "allow_missing")) {
      const std::optional<Layer> layer = layer_from_string(name);
      if (!layer) {
        reader.fail("allow_missing", str("unknown isolation layer \"", printable(name), "\""));
      }
      native.allow_missing.insert(*layer);
    }
  }
  reader.reject_unknown_fields();
  return native;
}

// An integer in whatever form, or the fallback: these two keys never stop LangBot from starting.
std::int64_t forgiving_integer(ObjectReader& reader, std::string_view name, std::int64_t current,
                               std::int64_t fallback) {
  const json::value* value = reader.find(name);
  return value == nullptr ? current : to_integer(*value).value_or(fallback);
}

// Collects what `reader` was not asked for.
void note_ignored(const ObjectReader& reader, std::vector<std::string>& ignored) {
  for (std::string& path : reader.unknown_fields()) ignored.push_back(std::move(path));
}

void read_limits_section(ObjectReader& box, const BoxConfig& current, ReadBoxConfig& read) {
  if (box.has_value("limits")) {
    read.config.limits = read_limits(*box.find("limits"), current.limits);
  }
  ObjectReader limits = box.section("limits");
  read.config.max_workspace_entries = std::clamp<std::int64_t>(
      forgiving_integer(limits, "max_workspace_entries", current.max_workspace_entries,
                        BoxConfig().max_workspace_entries),
      1, kMaxWorkspaceEntries);
  for (const auto& field : to_json(read.config.limits)) limits.find(field.key());  // read above
  note_ignored(limits, read.ignored_fields);
}

McpConfig read_mcp(ObjectReader& reader) {
  McpConfig mcp;
  mcp.stdio_enabled = reader.section("stdio").optional("enabled", mcp.stdio_enabled);
  const json::value* concurrency = reader.find("lifecycle_concurrency");
  if (concurrency != nullptr && concurrency->is_int64() && concurrency->get_int64() >= 1) {
    mcp.lifecycle_concurrency = std::min(concurrency->get_int64(), kMaxLifecycleConcurrency);
  }
  return mcp;
}

}  // namespace

ReadBoxConfig read_box_config(const json::value& tree, const BoxConfig& current) {
  ObjectReader box(tree.is_null() ? empty_tree() : tree, "box");
  ReadBoxConfig read{.config = current};
  read.config.enabled = read_enabled(box, current.enabled);
  read.config.backend = text_or(box, "backend", current.backend);
  ObjectReader runtime = box.section("runtime");
  read.config.runtime_endpoint = text_or(runtime, "endpoint", current.runtime_endpoint);
  ObjectReader local = box.section("local");
  read.config.local = read_local(local, current.local);
  read_limits_section(box, current, read);
  read.config.default_memory_mb =
      std::min(forgiving_integer(box, "default_memory_mb", current.default_memory_mb,
                                 BoxConfig().default_memory_mb),
               kMaxMegabytes);
  ObjectReader docker = box.section("docker");
  read.config.docker_cpu_limit_enabled =
      docker.optional("cpu_limit_enabled", current.docker_cpu_limit_enabled);
  ObjectReader e2b = box.section("e2b");
  read.config.e2b = read_e2b(e2b, current.e2b);
  read.config.admission = update_admission(current.admission, box.find("admission"));
  ObjectReader native = box.section("native");
  read.config.native = read_native(native, current.native);
  for (const ObjectReader* reader : {&box, &runtime, &local, &docker, &e2b}) {
    note_ignored(*reader, read.ignored_fields);
  }
  return read;
}

Config read_config(const json::value& tree) {
  ObjectReader root(tree.is_null() ? empty_tree() : tree, "");
  Config config;
  ReadBoxConfig box = read_box_config(root.has("box") ? *root.find("box") : empty_tree());
  config.box = std::move(box.config);
  config.ignored_fields = std::move(box.ignored_fields);
  ObjectReader mcp = root.section("mcp");
  config.mcp = read_mcp(mcp);
  ObjectReader system = root.section("system");
  ObjectReader limitation = system.section("limitation");
  config.force_session_id_template = text_or(limitation, "force_box_session_id_template", "");
  config.daemon = read_daemon(root.section("caisson"));
  note_ignored(root, config.ignored_fields);
  return config;
}

json::object to_json(const Config& config) {
  const BoxConfig& box = config.box;
  json::object limits = to_json(box.limits);
  limits["max_workspace_entries"] = box.max_workspace_entries;
  json::array allow_missing;
  for (const Layer layer : box.native.allow_missing) allow_missing.emplace_back(to_string(layer));
  const LocalConfig& local = box.local;
  json::object local_tree{{"profile", local.profile},
                          {"image", local.image},
                          {"host_root", local.host_root.value_or("")},
                          {"default_workspace", local.default_workspace},
                          {"skills_root", local.skills_root},
                          {"allowed_mount_roots", json::value_from(local.allowed_mount_roots)},
                          {"workspace_quota_mb", json::value_from(local.workspace_quota_mb)}};
  json::object box_tree{
      {"enabled", box.enabled},
      {"backend", box.backend},
      {"runtime", {{"endpoint", box.runtime_endpoint}}},
      {"local", std::move(local_tree)},
      {"limits", std::move(limits)},
      {"default_memory_mb", box.default_memory_mb},
      {"docker", {{"cpu_limit_enabled", box.docker_cpu_limit_enabled}}},
      {"e2b",
       {{"api_key", box.e2b.api_key},
        {"api_url", box.e2b.api_url},
        {"template", box.e2b.template_id}}},
      {"admission", to_json(box.admission.policy)},
      {"native",
       {{"allow_missing", std::move(allow_missing)}, {"answer_as", box.native.answer_as}}}};
  return {{"box", std::move(box_tree)},
          {"mcp",
           {{"stdio", {{"enabled", config.mcp.stdio_enabled}}},
            {"lifecycle_concurrency", config.mcp.lifecycle_concurrency}}},
          {"system",
           {{"limitation", {{"force_box_session_id_template", config.force_session_id_template}}}}},
          {"caisson", to_json(config.daemon)}};
}

}  // namespace caisson::model
