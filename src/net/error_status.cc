#include "net/error_status.h"

#include <boost/system/system_error.hpp>
#include <system_error>

#include "base/exhaustion.h"
#include "base/log.h"
#include "base/str.h"
#include "base/utf8.h"

namespace caisson::net {

namespace {

std::string json_string(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : decode_utf8(text)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(c);
    } else if (byte < 0x20) {
      out.append("\\u00");
      out.push_back(kDigits[byte >> 4]);
      out.push_back(kDigits[byte & 15]);
    } else {
      out.push_back(c);
    }
  }
  out.push_back('"');
  return out;
}

}  // namespace

int status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::validation_error:
      return 400;
    case ErrorCode::unauthorized:
      return 401;
    case ErrorCode::forbidden:
    case ErrorCode::mount_refused:
    case ErrorCode::admission_refused:
      return 403;
    case ErrorCode::not_found:
    case ErrorCode::session_not_found:
    case ErrorCode::managed_process_not_found:
    case ErrorCode::image_not_found:
      return 404;
    case ErrorCode::method_not_allowed:
      return 405;
    case ErrorCode::timeout:
      return 408;
    case ErrorCode::session_conflict:
    case ErrorCode::managed_process_conflict:
    case ErrorCode::image_conflict:
    case ErrorCode::request_id_conflict:
    case ErrorCode::interrupted:
    case ErrorCode::cancelled:
      return 409;
    case ErrorCode::payload_too_large:
      return 413;
    case ErrorCode::unsupported_media_type:
      return 415;
    case ErrorCode::command_not_started:
    case ErrorCode::artifact_refused:
      return 422;
    case ErrorCode::capacity_reached:
      return 429;
    case ErrorCode::system_error:
    case ErrorCode::internal_error:
      return 500;
    case ErrorCode::box_lost:
    case ErrorCode::protocol_error:
      return 502;
    case ErrorCode::isolation_unavailable:
    case ErrorCode::backend_unavailable:
    case ErrorCode::runtime_unavailable:
    case ErrorCode::not_ready:
    case ErrorCode::busy:
      return 503;
    case ErrorCode::storage_full:
      return 507;
  }
  return 500;
}

std::string_view reason_phrase(int status) {
  switch (status) {
    case 100:
      return "Continue";
    case 101:
      return "Switching Protocols";
    case 200:
      return "OK";
    case 201:
      return "Created";
    case 202:
      return "Accepted";
    case 204:
      return "No Content";
    case 304:
      return "Not Modified";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 406:
      return "Not Acceptable";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 410:
      return "Gone";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 422:
      return "Unprocessable Content";
    case 426:
      return "Upgrade Required";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 502:
      return "Bad Gateway";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 507:
      return "Insufficient Storage";
    default:
      return "";
  }
}

Response error_response(int status, ErrorCode code, std::string_view message) {
  Response response;
  response.status = status;
  response.body = str("{\"error\":{\"code\":\"", to_string(code),
                      "\",\"message\":", json_string(message), "}}");
  response.reason = message;
  if (status == 401) response.headers.push_back({"WWW-Authenticate", "Bearer"});
  if (code == ErrorCode::busy || code == ErrorCode::runtime_unavailable) {
    response.headers.push_back({"Retry-After", "1"});
  }
  return response;
}

Response error_response(const Error& error) {
  return error_response(status_of(error.code()), error.code(), error.what());
}

namespace {

struct Failure {
  int status = 500;
  ErrorCode code = ErrorCode::internal_error;
  std::string message;
};

Failure busy_now(const std::exception& error) {
  return {503, ErrorCode::busy, str(error.what(), "; try again in a moment")};
}

Failure judge_failure(const std::exception_ptr& failure, const Request& request) {
  std::string cause = "unknown exception";
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    const auto* system = dynamic_cast<const SystemError*>(&error);
    if (system != nullptr && is_exhaustion(system->error_number())) {
      return busy_now(error);
    }
    if (error.code() != ErrorCode::internal_error) {
      return {status_of(error.code()), error.code(), error.what()};
    }
    cause = error.what();
  } catch (const std::system_error& error) {  // of a thread
    if (is_exhaustion(error.code().value())) return busy_now(error);
    cause = error.what();
  } catch (const boost::system::system_error& error) {  // of the event loop
    if (is_exhaustion(error.code().value())) return busy_now(error);
    cause = error.what();
  } catch (const std::exception& error) {
    cause = error.what();
  } catch (...) {
    // The cause stays unknown.
  }
  const std::string_view path =
      std::string_view(request.target).substr(0, request.target.find('?'));
  log::error("request failed", "method", request.method, "path", path, "cause", cause);
  return {500, ErrorCode::internal_error,
          "the request failed inside the daemon; its log has the cause"};
}

}  // namespace

Response failure_response(const std::exception_ptr& failure, const Request& request) {
  const Failure judged = judge_failure(failure, request);
  return error_response(judged.status, judged.code, judged.message);
}

CloseReason failure_reason(const std::exception_ptr& failure, const Request& request) {
  const Failure judged = judge_failure(failure, request);
  const bool for_now = judged.status == 503 || judged.status == 429;
  return {.code = for_now ? CloseCode::try_again_later : CloseCode::internal_error,
          .text = judged.message};
}

}  // namespace caisson::net
