#pragma once
#include <cerrno>
#include <stdexcept>
#include <string>
#include <string_view>

namespace caisson {

// What went wrong, for machines. The names are part of every interface (REST, command line, logs),
// so they live here, below every module, although some of them speak of sessions.
enum class ErrorCode {
  validation_error,           // the request itself is wrong
  unauthorized,               // no token, or a wrong one
  forbidden,                  // a caller that is refused whatever it asks
  not_found,                  // a thing with no code of its own
  method_not_allowed,         //
  payload_too_large,          //
  unsupported_media_type,     //
  session_not_found,          //
  session_conflict,           // the session exists with other settings
  managed_process_not_found,  //
  managed_process_conflict,   //
  image_not_found,            //
  image_conflict,             // an image of that name exists
  request_id_conflict,        // the request id belongs to another command
  interrupted,                // the daemon that ran the command has ended; the outcome is unknown
  mount_refused,              // the host path may not be mounted
  artifact_refused,           // files that are shown by their digest are not what it says
  isolation_unavailable,      // a layer the box asks for cannot be put in force
  command_not_started,        // the box is fine, the program could not be executed
  box_lost,                   // the box ended while it was in use
  backend_unavailable,        //
  runtime_unavailable,        // the daemon is about to end
  capacity_reached,           //
  admission_refused,          // the workspace has no grant for this
  not_ready,                  // what must be in force before anybody is admitted is not
  busy,                       // refused for now; the same request may succeed later
  storage_full,               //
  timeout,                    //
  cancelled,                  // the caller wished so
  protocol_error,             // the other side of a socket broke the protocol
  system_error,               // a system call failed; the message names its subject
  internal_error,             // a fault of ours
};

// The stable name, e.g. "session_conflict".
std::string_view to_string(ErrorCode code);
// The code of that name; internal_error when there is none.
ErrorCode error_code_of(std::string_view name);

// The one exception type: a code for machines and a sentence for people. The sentence names the
// object, the cause and, where there is one, the next step. Caught once, at the edge of the
// program.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

// A failed system call. Keeps errno so that a caller may decide on it.
class SystemError : public Error {
 public:
  SystemError(std::string_view subject, int error_number);
  int error_number() const { return error_number_; }

 private:
  int error_number_;
};

// "Permission denied"; a thread-safe strerror.
std::string error_text(int error_number);

// Returns `result` unless it is negative; then throws SystemError with errno and the subject.
template <typename T>
T check_syscall(std::string_view subject, T result) {
  if (result < 0) throw SystemError(subject, errno);
  return result;
}

}  // namespace caisson
