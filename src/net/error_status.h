#pragma once
#include <exception>
#include <string>
#include <string_view>

#include "base/error.h"
#include "net/frame.h"
#include "net/http.h"

namespace caisson::net {

// The one table from error codes to HTTP.
int status_of(ErrorCode code);

// "Not Found"; empty for a status without a name.
std::string_view reason_phrase(int status);

// {"error": {"code": ..., "message": ...}}, with what the status asks for besides (a 401 names the
// scheme, and what may go well in a moment says when).
Response error_response(int status, ErrorCode code, std::string_view message);
Response error_response(const Error& error);

// The answer to whatever a handler threw. What is no Error, or an internal_error, is a fault of
// ours: it is logged here and the client learns nothing of it.
Response failure_response(const std::exception_ptr& failure, const Request& request);

// How a websocket is closed for whatever its handler threw, by the same rules.
CloseReason failure_reason(const std::exception_ptr& failure, const Request& request);

}  // namespace caisson::net
