#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/stream_parser.hpp>
#include <utility>

#include "api/rest/rest.h"
#include "base/error.h"
#include "base/str.h"
#include "base/text.h"
#include "model/object_reader.h"
#include "session/tenancy.h"

namespace caisson::api::rest {

namespace json = boost::json;

json::value parse_body(const std::string& body, json::storage_ptr storage) {
  if (trim(body).empty()) return json::object();
  json::parse_options options;
  options.max_depth = 32;
  json::stream_parser parser(storage, options);
  parser.reset(std::move(storage));
  json::error_code error;
  const std::size_t read = parser.write_some(body, error);
  if (!error) parser.finish(error);
  if (!error && read < body.size() && !trim(std::string_view(body).substr(read)).empty()) {
    error = json::error::extra_data;
  }
  if (error) {
    throw Error(ErrorCode::validation_error,
                str("the body is not JSON: ", error.message(), " at byte ", read));
  }
  return parser.release();
}

std::string acting_session(const net::Exchange& exchange) {
  std::string id = exchange.param("id");
  if (session::find_placement(trim(id))) {
    throw Error(ErrorCode::forbidden,
                str("session ", printable(id),
                    " is a workspace's: only its LangBot host can use it, with the workspace's "
                    "context; choose another name"));
  }
  return id;
}

model::BuiltRequest read_request(const service::Policy& policy, const net::Exchange& exchange,
                                 const json::value& body) {
  if (!body.is_object()) model::refuse("must be an object");
  json::object request = body.get_object();
  request["session_id"] = acting_session(exchange);  // whatever the body says
  return policy.apply({}, std::move(request));
}

std::vector<net::Header> headers_for(const std::vector<std::string>& overridden) {
  if (overridden.empty()) return {};
  return {{"Caisson-Overridden", join(overridden, ", ")}};
}

net::Response json_response(int status, const json::value& value) {
  net::Response response;
  response.status = status;
  response.body = json::serialize(value);
  return response;
}

std::optional<std::uint64_t> find_number(const net::Request& request, std::string_view name) {
  const std::string* text = request.find_query(name);
  if (text == nullptr) return std::nullopt;
  const auto number = parse_integer(*text);
  if (!number || *number < 0) {
    throw Error(ErrorCode::validation_error, str(name, ": must be a number, 0 or above"));
  }
  return static_cast<std::uint64_t>(*number);
}

}  // namespace caisson::api::rest
