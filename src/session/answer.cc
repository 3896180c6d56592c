#include "session/answer.h"

#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <utility>

#include "base/sha256.h"

namespace caisson::session {

namespace json = boost::json;

std::string stored_text(const Answer& answer) {
  if (!answer.error) return answer.text;
  return json::serialize(json::object{{"code", to_string(answer.error->code())},
                                      {"message", std::string_view(answer.error->what())}});
}

Answer read_answer(store::ExecutionRecord record) {
  if (record.state != store::ExecutionState::failed) return {.text = std::move(record.answer)};
  const json::value error = json::parse(record.answer);
  return {.error = Error(error_code_of(error.at("code").as_string()),
                         std::string(error.at("message").as_string()))};
}

std::string request_hash(const ExecRequest& request) {
  model::BoxRequest asked = request.asked;
  asked.mounting = model::Mounting::fixed;  // whether mounts are named is not what the command is
  const json::object canonical{{"spec", model::to_json(asked)},
                               {"stdin", request.options.input},
                               {"on_timeout", to_string(request.options.on_timeout)},
                               {"kept", request.options.kept_without_caller()}};
  return sha256_hex(json::serialize(canonical));
}

}  // namespace caisson::session
