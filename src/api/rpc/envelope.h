#pragma once
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <exception>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "session/tenancy.h"

// The messages of LangBot's Action RPC: requests with a number, an action and data, answers with
// the same number. Pure.
namespace caisson::api::rpc {

inline constexpr std::size_t kMaxMessage = 16u << 20;
inline constexpr std::size_t kMaxDepth = 200;  // of a request's data; what it comes in counts not

// A failure under the name of a Python exception, which is how clients know it.
class Fault : public Error {
 public:
  Fault(std::string kind, const std::string& text)
      : Error(ErrorCode::validation_error, text), kind_(std::move(kind)) {}
  const std::string& kind() const { return kind_; }

 private:
  std::string kind_;
};

// "BoxSessionNotFoundError: session x not found". Texts that are longer than a protocol error may
// be are cut, except those of a request that was refused.
std::string failure_text(const std::exception_ptr& failure);
// The name alone: "BoxSessionNotFoundError".
std::string failure_kind(const Error& error);

// A text as a JSON object; nullopt when it is none. Python writes NaN and Infinity, which are not
// JSON: they read as null, so that whoever sent them is told which field is wrong.
std::optional<boost::json::object> read_object(std::string_view text,
                                               const boost::json::storage_ptr& storage = {});

// Whether a text is no object to read_object() because it is nested too deeply. Whoever sent it
// waits for an answer.
bool is_too_deep(std::string_view text);

// The value of a member of that object as it stands in the text; empty when there is none. The
// text has been read before.
std::string_view find_raw(std::string_view object, std::string_view name);

// A message is a request when it names an action and is no answer.
bool is_request(const boost::json::object& message);

// The number as it came, for the answer; "-1" when there is none.
std::string sequence_text(std::string_view message);

struct Request {
  std::string action;
  boost::json::object data;
  std::optional<session::Tenant> tenant;  // the context, when there is one
};
// Throws a ValidationError.
Request read_request(boost::json::object message);

// An answer as LangBot's runtime writes it. One that is longer than `limit` becomes an error.
std::string answer_text(std::string_view sequence, const boost::json::object& data,
                        std::size_t limit = kMaxMessage);
std::string error_text(std::string_view sequence, const std::string& message);

}  // namespace caisson::api::rpc
