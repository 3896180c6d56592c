#include "api/rpc/action.h"

#include <map>

#include "api/rpc/envelope.h"
#include "base/str.h"

namespace caisson::api::rpc {

namespace json = boost::json;

const Action* find_action(std::string_view name) {
  static const std::map<std::string_view, Action> kActions = {
      {"__ping", {Scope::host, ping}},
      {"__file_chunk", {Scope::host, take_file_chunk}},
      {kCancelAction, {Scope::tenant, cancel_action}},
      {"__stream_ack", {Scope::tenant, acknowledge_stream}},
      {"box_init", {Scope::host, initialise}},
      {"box_health", {Scope::host, health}},
      {"box_get_backend_info", {Scope::host, backend_info}},
      {"box_upsert_sandbox_admission_grant", {Scope::host, install_grant}},
      {"box_revoke_sandbox_admission_grant", {Scope::host, revoke_grant}},
      {"box_verify_shared_workspace", {Scope::host, verify_shared_workspace}},
      {"box_shutdown", {Scope::host, shut_down}},
      {"box_status", {Scope::tenant, status}},
      {"box_get_storage_analysis", {Scope::tenant, analyse_storage}},
      {"box_exec", {Scope::sandbox, exec}},
      {"box_create_session", {Scope::sandbox, create_session}},
      {"box_get_session", {Scope::sandbox, get_session}},
      {"box_get_sessions", {Scope::sandbox, get_sessions}},
      {"box_delete_session", {Scope::sandbox, delete_session}},
      {"box_start_managed_process", {Scope::sandbox, start_process}},
      {"box_get_managed_process", {Scope::sandbox, get_process}},
      {"box_stop_managed_process", {Scope::sandbox, stop_process}},
      {"box_list_skills", {Scope::tenant, list_skills}},
      {"box_get_skill", {Scope::tenant, get_skill}},
      {"box_create_skill", {Scope::tenant, create_skill}},
      {"box_update_skill", {Scope::tenant, update_skill}},
      {"box_delete_skill", {Scope::tenant, delete_skill}},
      {"box_scan_skill_directory", {Scope::tenant, scan_skill_directory}},
      {"box_list_skill_files", {Scope::tenant, list_skill_files}},
      {"box_read_skill_file", {Scope::tenant, read_skill_file}},
      {"box_write_skill_file", {Scope::tenant, write_skill_file}},
      {"box_preview_skill_zip", {Scope::tenant, preview_skill_zip}},
      {"box_install_skill_zip", {Scope::tenant, install_skill_zip}},
  };
  const auto found = kActions.find(name);
  return found == kActions.end() ? nullptr : &found->second;
}

const json::value& required_field(const json::object& data, std::string_view name) {
  const json::value* value = data.if_contains(name);
  if (value == nullptr) throw Fault("KeyError", str("'", name, "'"));
  return *value;
}

std::string required_text(const json::object& data, std::string_view name) {
  const json::value& value = required_field(data, name);
  if (!value.is_string()) throw Fault("ValueError", str(name, " must be a string"));
  return std::string(value.get_string());
}

std::string text_or(const json::object& data, std::string_view name, std::string fallback) {
  const json::value* value = data.if_contains(name);
  if (value == nullptr || value->is_null()) return fallback;
  return required_text(data, name);
}

}  // namespace caisson::api::rpc
