#pragma once
#include <boost/json/object.hpp>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "api/rpc/domain.h"
#include "api/rpc/runtime.h"
#include "api/rpc/transfers.h"
#include "async/cancellation.h"
#include "async/task.h"
#include "session/process.h"

// What hosts can ask for: one function an action, one file a kind.
namespace caisson::api::rpc {

// For whom an action works.
enum class Scope {
  host,     // the host itself
  tenant,   // a workspace, or a host of old
  sandbox,  // the same, and where admission is required it is asked for
};

// One request at work. The runtime and the connection's files outlive it.
struct Call {
  Runtime& runtime;
  Transfers& transfers;
  std::string instance;      // that the host is of; empty: it names none
  bool legacy = false;       // from a host of old
  bool shown_token = false;  // or came by standard input
  bool from_parent = false;  // it came by standard input: whoever sent it started the daemon
  Domain domain;
  boost::json::object data;
  std::shared_ptr<Cancellation> cancellation;  // the host has gone, or asked for that
  // Another request of the same tenant on this connection, by its number; false: there is none.
  std::function<bool(const std::string& sequence)> cancel_other;
};

struct Action {
  Scope scope = Scope::host;
  Task<boost::json::object> (*run)(Call call) = nullptr;
};

inline constexpr std::string_view kCancelAction = "__cancel_action";

// Null when there is none of that name.
const Action* find_action(std::string_view name);

// Fields of an action's data. Throw a KeyError when there is none, a ValueError when it is of
// another kind.
const boost::json::value& required_field(const boost::json::object& data, std::string_view name);
std::string required_text(const boost::json::object& data, std::string_view name);
std::string text_or(const boost::json::object& data, std::string_view name, std::string fallback);

// The session that the field `session_id` names, as the registry knows it. Throws a KeyError or a
// ValueError, and admission_refused for one that a managed workspace cannot have.
std::string session_of(const Call& call);

// As LangBot knows processes: one that is about to be started again runs.
boost::json::object process_json(const Domain& domain, const session::ManagedProcess& process);

// __ping, box_init, box_health ...
Task<boost::json::object> ping(Call call);
Task<boost::json::object> cancel_action(Call call);
Task<boost::json::object> acknowledge_stream(Call call);
Task<boost::json::object> take_file_chunk(Call call);
Task<boost::json::object> initialise(Call call);
Task<boost::json::object> health(Call call);
Task<boost::json::object> backend_info(Call call);
Task<boost::json::object> status(Call call);
Task<boost::json::object> install_grant(Call call);
Task<boost::json::object> revoke_grant(Call call);
Task<boost::json::object> verify_shared_workspace(Call call);
Task<boost::json::object> shut_down(Call call);

Task<boost::json::object> exec(Call call);
Task<boost::json::object> create_session(Call call);
Task<boost::json::object> get_session(Call call);
Task<boost::json::object> get_sessions(Call call);
Task<boost::json::object> delete_session(Call call);

Task<boost::json::object> analyse_storage(Call call);

Task<boost::json::object> start_process(Call call);
Task<boost::json::object> get_process(Call call);
Task<boost::json::object> stop_process(Call call);

Task<boost::json::object> list_skills(Call call);
Task<boost::json::object> get_skill(Call call);
Task<boost::json::object> create_skill(Call call);
Task<boost::json::object> update_skill(Call call);
Task<boost::json::object> delete_skill(Call call);
Task<boost::json::object> scan_skill_directory(Call call);
Task<boost::json::object> list_skill_files(Call call);
Task<boost::json::object> read_skill_file(Call call);
Task<boost::json::object> write_skill_file(Call call);
Task<boost::json::object> preview_skill_zip(Call call);
Task<boost::json::object> install_skill_zip(Call call);

}  // namespace caisson::api::rpc
