#include <boost/json/array.hpp>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "api/rpc/action.h"
#include "api/rpc/envelope.h"
#include "api/rpc/skills.h"
#include "base/error.h"
#include "base/str.h"
#include "model/object_reader.h"
#include "skill/skill.h"
#include "skill/store.h"
#include "skill/zip.h"

// Actions on skills. The store works beside the event loop; what it needs goes there by value.
namespace caisson::api::rpc {

namespace json = boost::json;
namespace fs = std::filesystem;

namespace {

skill::Store store_of(Runtime& runtime, const std::optional<session::Tenant>& tenant) {
  const service::BoxConfiguration& configuration = runtime.configuration();
  const fs::path root = configuration.skills_root();
  if (!tenant) {
    // Hosts of old may bring packages from wherever they may mount directories from.
    return skill::Store(
        root, {.roots = configuration.mount_roots(), .rules = configuration.mount_rules()});
  }
  const std::string name_space = workspace_namespace(*tenant);
  skill::Imports imports{.roots = {}, .rules = configuration.mount_rules()};
  imports.rules.name_space = name_space;
  if (configuration.default_workspace()) {
    imports.roots.push_back(configuration.tenant_workspace(name_space));
  }
  return skill::Store::scoped(root, name_space, std::move(imports));
}

// A managed workspace's skills take no more of the disk than they may.
Task<void> limit_storage(Runtime& runtime, std::optional<session::Tenant> tenant) {
  const RuntimeSettings& settings = runtime.settings();
  if (!tenant || !runtime.admission().required() || !settings.limit_storage) co_return;
  const fs::path directory =
      runtime.configuration().skills_root() / "tenants" / workspace_namespace(*tenant);
  co_await settings.limit_storage(directory, settings.skill_quota_mb);
}

template <typename Work>
Task<std::invoke_result_t<Work, skill::Store&>> with_store(Runtime& runtime,
                                                           std::optional<session::Tenant> tenant,
                                                           Work work) {
  co_await limit_storage(runtime, tenant);
  auto store = std::make_shared<skill::Store>(store_of(runtime, tenant));
  co_return co_await runtime.with_skills(
      [store = std::move(store), work = std::move(work)] { return work(*store); });
}

// What is missing or of the wrong kind in these actions is told as a fault of the request.
template <typename Read>
auto field(Read read) {
  try {
    return read();
  } catch (const Fault& fault) {
    throw Error(ErrorCode::validation_error, fault.what());
  }
}

std::string text_field(const Call& call, std::string_view name) {
  return field([&] { return required_text(call.data, name); });
}

std::string text_field_or(const Call& call, std::string_view name, std::string fallback) {
  return field([&] { return text_or(call.data, name, std::move(fallback)); });
}

json::object object_field(const Call& call, std::string_view name) {
  const json::value value = field([&] { return required_field(call.data, name); });
  if (!value.is_object()) {
    throw Error(ErrorCode::validation_error, str(name, " must be an object"));
  }
  return value.get_object();
}

json::array to_json(const std::vector<skill::Skill>& skills) {
  json::array array;
  for (const skill::Skill& one : skills) array.push_back(skill::to_json(one));
  return array;
}

skill::ListFiles read_list_files(const Call& call) {
  const json::value data = call.data;
  model::ObjectReader reader(data, "");
  skill::ListFiles request;
  request.path = text_field_or(call, "path", request.path);
  request.include_hidden = reader.optional("include_hidden", request.include_hidden);
  request.max_entries = reader.optional("max_entries", request.max_entries);
  return request;
}

json::object to_json(const skill::FileEntry& entry) {
  json::object object{{"path", entry.path}, {"name", entry.name}, {"is_dir", entry.is_directory}};
  if (entry.is_directory) {
    object["size"] = nullptr;
  } else {
    object["size"] = entry.size;
  }
  return object;
}

skill::UploadOptions read_upload(const Call& call) {
  skill::UploadOptions options;
  options.file_name = text_field_or(call, "filename", options.file_name);
  options.source_subdir = text_field_or(call, "source_subdir", options.source_subdir);
  options.target_suffix = text_field_or(call, "target_suffix", options.target_suffix);
  return options;
}

// Read on the pool: the descriptor is all that is taken along.
std::shared_ptr<UniqueFd> take_archive(Call& call) {
  const std::string key = text_field(call, "file_key");
  return std::make_shared<UniqueFd>(field([&] { return call.transfers.take(key); }));
}

std::vector<std::string> read_source_paths(const Call& call) {
  const json::value data = call.data;
  model::ObjectReader reader(data, "");
  std::vector<std::string> paths;
  if (reader.has_value("source_paths")) {
    paths = reader.required<model::ObjectReader::Strings>("source_paths");
  }
  const std::string single = text_field_or(call, "source_path", "");
  if (paths.empty() && !single.empty()) paths.push_back(single);
  return paths;
}

}  // namespace

Task<std::optional<std::string>> find_package(Runtime& runtime, session::Tenant tenant,
                                              std::string name) {
  co_return co_await with_store(runtime, std::move(tenant), [name](const skill::Store& store) {
    return store.find_package(name);
  });
}

Task<json::object> list_skills(Call call) {
  const std::vector<skill::Skill> skills = co_await with_store(
      call.runtime, call.domain.tenant(), [](const skill::Store& store) { return store.list(); });
  co_return json::object{{"skills", to_json(skills)}};
}

Task<json::object> get_skill(Call call) {
  const std::string name = required_text(call.data, "name");
  const std::optional<skill::Skill> found =
      co_await with_store(call.runtime, call.domain.tenant(),
                          [name](const skill::Store& store) { return store.get(name); });
  json::object answer{{"skill", nullptr}};
  if (found) answer["skill"] = skill::to_json(*found);
  co_return answer;
}

Task<json::object> create_skill(Call call) {
  const json::object wanted = object_field(call, "skill");
  const skill::Skill made =
      co_await with_store(call.runtime, call.domain.tenant(),
                          [wanted](const skill::Store& store) { return store.create(wanted); });
  co_return json::object{{"skill", skill::to_json(made)}};
}

Task<json::object> update_skill(Call call) {
  const std::string name = text_field(call, "name");
  const json::object wanted = object_field(call, "skill");
  const skill::Skill changed = co_await with_store(
      call.runtime, call.domain.tenant(),
      [name, wanted](const skill::Store& store) { return store.update(name, wanted); });
  co_return json::object{{"skill", skill::to_json(changed)}};
}

Task<json::object> delete_skill(Call call) {
  const std::string name = text_field(call, "name");
  co_await with_store(call.runtime, call.domain.tenant(), [name](const skill::Store& store) {
    store.remove(name);
    return true;
  });
  co_return json::object{{"deleted", name}};
}

Task<json::object> scan_skill_directory(Call call) {
  const std::string path = text_field(call, "path");
  const skill::Skill found =
      co_await with_store(call.runtime, call.domain.tenant(),
                          [path](const skill::Store& store) { return store.scan_directory(path); });
  co_return skill::to_json(found);
}

Task<json::object> list_skill_files(Call call) {
  const std::string name = text_field(call, "name");
  const skill::ListFiles request = read_list_files(call);
  const skill::FileList list = co_await with_store(
      call.runtime, call.domain.tenant(),
      [name, request](const skill::Store& store) { return store.list_files(name, request); });
  json::array entries;
  for (const skill::FileEntry& entry : list.entries) entries.push_back(to_json(entry));
  co_return json::object{{"skill", {{"name", name}}},
                         {"base_path", list.base_path},
                         {"entries", std::move(entries)},
                         {"truncated", list.truncated}};
}

Task<json::object> read_skill_file(Call call) {
  const std::string name = text_field(call, "name");
  const std::string path = text_field(call, "path");
  const skill::FileContent file = co_await with_store(
      call.runtime, call.domain.tenant(),
      [name, path](const skill::Store& store) { return store.read_file(name, path); });
  co_return json::object{
      {"skill", {{"name", name}}}, {"path", file.path}, {"content", file.content}};
}

Task<json::object> write_skill_file(Call call) {
  const std::string name = text_field(call, "name");
  const std::string path = text_field(call, "path");
  const std::string content = text_field_or(call, "content", "");
  const skill::FileWritten written = co_await with_store(
      call.runtime, call.domain.tenant(), [name, path, content](const skill::Store& store) {
        return store.write_file(name, path, content);
      });
  co_return json::object{{"skill", {{"name", name}}},
                         {"path", written.path},
                         {"bytes_written", written.bytes_written}};
}

Task<json::object> preview_skill_zip(Call call) {
  const skill::UploadOptions options = read_upload(call);
  const std::shared_ptr<UniqueFd> archive = take_archive(call);
  const std::vector<skill::Skill> skills = co_await with_store(
      call.runtime, call.domain.tenant(), [archive, options](const skill::Store& store) {
        return store.preview_zip(skill::read_archive(archive->get()), options);
      });
  co_return json::object{{"skills", to_json(skills)}};
}

Task<json::object> install_skill_zip(Call call) {
  const skill::UploadOptions options = read_upload(call);
  const std::vector<std::string> paths = read_source_paths(call);
  const std::shared_ptr<UniqueFd> archive = take_archive(call);
  const std::vector<skill::Skill> skills = co_await with_store(
      call.runtime, call.domain.tenant(), [archive, options, paths](const skill::Store& store) {
        return store.install_zip(skill::read_archive(archive->get()), options, paths);
      });
  co_return json::object{{"skills", to_json(skills)}};
}

}  // namespace caisson::api::rpc
