#include <fcntl.h>

#include <array>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "api/rpc/action.h"
#include "base/beneath.h"
#include "base/directory.h"
#include "base/error.h"
#include "base/file.h"
#include "base/str.h"
#include "model/box_settings.h"

// What a workspace takes, on the host and in its boxes.
namespace caisson::api::rpc {

namespace json = boost::json;
namespace fs = std::filesystem;
using session::DirectoryUsage;

namespace {

constexpr char kTemporary[] = "/tmp";

std::string caches() {
  return str(model::kBoxHome, "/.cache");
}

// What is a part of another entry says of which.
struct Place {
  std::string key;
  std::string path;
  std::string part_of = {};
};

json::object entry(const Place& place, const DirectoryUsage& usage, std::string_view scope) {
  json::object object{{"key", place.key},
                      {"path", place.path},
                      {"kind", place.part_of.empty() ? "root" : "detail"},
                      {"exists", usage.exists},
                      {"size_bytes", usage.bytes},
                      {"file_count", usage.files},
                      {"error_count", usage.errors},
                      {"scope", scope}};
  if (!place.part_of.empty()) object["parent_key"] = place.part_of;
  return object;
}

void add(DirectoryUsage& sum, const DirectoryUsage& more) {
  sum.exists = sum.exists || more.exists;
  sum.bytes += more.bytes;
  sum.files += more.files;
  sum.errors += more.errors;
}

// A directory that tenants write to: no link in it is followed, nor is it one itself.
DirectoryUsage measure(const fs::path& directory) {
  const UniqueFd fd = open_absolute(directory.native(), O_RDONLY | O_DIRECTORY);
  if (!fd) return {.errors = errno == ENOENT ? 0u : 1u};
  const TreeUsage usage = measure_tree(fd.get());
  return {.exists = true, .bytes = usage.size, .files = usage.files, .errors = usage.errors};
}

// The workspace on the host, and parts of it that hosts know.
Task<json::array> on_host(const Call& call) {
  const service::BoxConfiguration& configuration = call.runtime.configuration();
  const std::optional<session::Tenant>& tenant = call.domain.tenant();
  std::optional<fs::path> workspace = configuration.default_workspace();
  if (!workspace) co_return json::array();
  if (tenant) workspace = configuration.tenant_workspace(workspace_namespace(*tenant));
  co_return co_await call.runtime.with_disk([workspace = *workspace] {
    const std::array<Place, 4> places = {{{"workspace", workspace},
                                          {"mcp", workspace / ".mcp", "workspace"},
                                          {"inbox", workspace / "inbox", "workspace"},
                                          {"outbox", workspace / "outbox", "workspace"}}};
    json::array entries;
    for (const Place& place : places) {
      entries.push_back(entry(place, measure(place.path), "runtime_host"));
    }
    return entries;
  });
}

// Of all boxes of a workspace together.
struct InBoxes {
  std::size_t measured = 0;
  std::size_t with_processes = 0;
  std::uint64_t failed = 0;  // boxes that ended meanwhile
  DirectoryUsage workspaces;
  DirectoryUsage caches;
  DirectoryUsage temporary;
  DirectoryUsage of_processes;  // the part of workspaces in boxes that have any
};

Task<void> measure_box(const Call& call, const session::SessionView& view, bool has_processes,
                       InBoxes& sums) {
  const Services& services = call.runtime.services();
  const std::string& id = view.info.session_id;
  std::vector<std::string> paths{view.info.box.mount_path, caches(), kTemporary};
  std::vector<DirectoryUsage> found;
  co_await services.sessions.wait_for(id);
  try {
    found = co_await services.files.usage(services.sessions.use(id, false), std::move(paths));
  } catch (const Error&) {
    ++sums.failed;
    co_return;
  }
  ++sums.measured;
  add(sums.caches, found[1]);
  add(sums.temporary, found[2]);
  if (view.info.box.host_path) co_return;  // its workspace is the host's
  add(sums.workspaces, found[0]);
  if (!has_processes) co_return;
  ++sums.with_processes;
  add(sums.of_processes, found[0]);
}

json::array entries_of(InBoxes sums) {
  for (DirectoryUsage* usage :
       {&sums.workspaces, &sums.caches, &sums.temporary, &sums.of_processes}) {
    usage->errors += sums.failed;
  }
  const auto of = [](std::string_view path, std::size_t count, std::string_view kind) {
    return str(path, " (", count, " ", kind, " sessions)");
  };
  constexpr std::string_view kScope = "sandbox_sessions";
  json::array entries{
      entry({"session_workspaces", of(model::kDefaultMountPath, sums.measured, "sandbox")},
            sums.workspaces, kScope),
      entry({"session_caches", of(caches(), sums.measured, "sandbox")}, sums.caches, kScope),
      entry({"session_temp", of(kTemporary, sums.measured, "sandbox")}, sums.temporary, kScope)};
  if (sums.with_processes > 0) {
    entries.push_back(entry({"managed_process_workspaces",
                             of(model::kDefaultMountPath, sums.with_processes, "managed-process"),
                             "session_workspaces"},
                            sums.of_processes, kScope));
  }
  return entries;
}

std::uint64_t total(const json::array& entries) {
  std::uint64_t sum = 0;
  for (const json::value& value : entries) {
    if (value.at("kind").as_string() == "root")
      sum += value.at("size_bytes").to_number<std::uint64_t>();
  }
  return sum;
}

}  // namespace

Task<json::object> analyse_storage(Call call) {
  json::array entries = co_await on_host(call);
  const Services& services = call.runtime.services();
  InBoxes sums;
  std::size_t sessions = 0;
  std::size_t processes = 0;
  for (const session::SessionView& view : services.sessions.list()) {
    if (!call.domain.owns(view.info.session_id)) continue;
    const std::size_t has = services.processes.list(view.info.session_id).size();
    ++sessions;
    processes += has;
    co_await measure_box(call, view, has > 0, sums);
  }
  if (sessions > 0) {
    for (json::value& value : entries_of(sums)) entries.push_back(std::move(value));
  }
  const std::uint64_t size = total(entries);
  co_return json::object{{"size_bytes", size},
                         {"directories", std::move(entries)},
                         {"active_sessions", sessions},
                         {"managed_processes", processes}};
}

}  // namespace caisson::api::rpc
