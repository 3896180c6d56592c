#pragma once
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <string>
#include <string_view>

#include "async/task.h"
#include "cli/daemon_client.h"

// Requests about the managed processes of sessions.
namespace caisson::cli {

// A managed process, by its names.
struct ProcessName {
  std::string session;
  std::string process = "default";
};

// Throws validation_error for names that nothing can have.
ProcessName process_name(std::string_view session, std::string_view process);

// "/v1/sessions/NAME/managed-process/ID" and what is below it.
std::string process_target(const ProcessName& name, std::string_view below = "");

struct ProcessStart {
  std::string session;
  boost::json::object settings;  // of the session; what is left open is as the session has it
  boost::json::object process;   // plan_process()
};

// Makes the session if there is none, and gives the process as the daemon shows it.
Task<boost::json::object> start_process(DaemonClient& client, ProcessStart start);

}  // namespace caisson::cli
