#include "base/error.h"

#include <cstring>

#include "base/str.h"

namespace caisson {

std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::validation_error:
      return "validation_error";
    case ErrorCode::unauthorized:
      return "unauthorized";
    case ErrorCode::forbidden:
      return "forbidden";
    case ErrorCode::not_found:
      return "not_found";
    case ErrorCode::method_not_allowed:
      return "method_not_allowed";
    case ErrorCode::payload_too_large:
      return "payload_too_large";
    case ErrorCode::unsupported_media_type:
      return "unsupported_media_type";
    case ErrorCode::session_not_found:
      return "session_not_found";
    case ErrorCode::session_conflict:
      return "session_conflict";
    case ErrorCode::managed_process_not_found:
      return "managed_process_not_found";
    case ErrorCode::managed_process_conflict:
      return "managed_process_conflict";
    case ErrorCode::image_not_found:
      return "image_not_found";
    case ErrorCode::image_conflict:
      return "image_conflict";
    case ErrorCode::request_id_conflict:
      return "request_id_conflict";
    case ErrorCode::interrupted:
      return "interrupted";
    case ErrorCode::mount_refused:
      return "mount_refused";
    case ErrorCode::artifact_refused:
      return "artifact_refused";
    case ErrorCode::isolation_unavailable:
      return "isolation_unavailable";
    case ErrorCode::command_not_started:
      return "command_not_started";
    case ErrorCode::box_lost:
      return "box_lost";
    case ErrorCode::backend_unavailable:
      return "backend_unavailable";
    case ErrorCode::runtime_unavailable:
      return "runtime_unavailable";
    case ErrorCode::capacity_reached:
      return "capacity_reached";
    case ErrorCode::admission_refused:
      return "admission_refused";
    case ErrorCode::not_ready:
      return "not_ready";
    case ErrorCode::busy:
      return "busy";
    case ErrorCode::storage_full:
      return "storage_full";
    case ErrorCode::timeout:
      return "timeout";
    case ErrorCode::cancelled:
      return "cancelled";
    case ErrorCode::protocol_error:
      return "protocol_error";
    case ErrorCode::system_error:
      return "system_error";
    case ErrorCode::internal_error:
      return "internal_error";
  }
  return "internal_error";
}

ErrorCode error_code_of(std::string_view name) {
  for (int number = 0; number < static_cast<int>(ErrorCode::internal_error); ++number) {
    const auto code = static_cast<ErrorCode>(number);
    if (to_string(code) == name) return code;
  }
  return ErrorCode::internal_error;
}

std::string error_text(int error_number) {
  const char* text = ::strerrordesc_np(error_number);
  return text != nullptr ? std::string(text) : str("error ", error_number);
}

SystemError::SystemError(std::string_view subject, int error_number)
    : Error(ErrorCode::system_error, str(subject, ": ", error_text(error_number))),
      error_number_(error_number) {}

}  // namespace caisson
