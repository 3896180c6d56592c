#include "session/kept_session.h"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <chrono>
#include <exception>
#include <utility>

#include "base/error.h"
#include "base/str.h"
#include "session/kept_json.h"
#include "session/tenancy.h"

namespace caisson::session {

namespace json = boost::json;

namespace {

constexpr int kVersion = 1;
constexpr const char* kPrefix = "session/";

}  // namespace

std::string kept_session_name(const std::string& session_id) {
  return str(kPrefix, session_id);
}

bool is_kept_session(const std::string& name) {
  return name.starts_with(kPrefix);
}

// The name is among the settings: so daemons before 0.2 wrote it, and read it.
std::string to_text(const KeptSession& session) {
  json::object spec = model::to_exact_json(session.settings);
  spec["session_id"] = session.session_id;
  return json::serialize(json::object{{"version", kVersion},
                                      {"spec", std::move(spec)},
                                      {"box", session.box},
                                      {"created_at", microseconds(session.created_at)},
                                      {"last_used_at", microseconds(session.last_used_at)},
                                      {"last_used", session.last_used.time_since_epoch().count()},
                                      {"execs", session.execs}});
}

KeptSession read_kept_session(const std::string& text) {
  try {
    const json::value value = json::parse(text);
    const json::object& object = value.as_object();
    if (object.at("version").to_number<int>() != kVersion) {
      throw Error(ErrorCode::protocol_error, "it was written by another version");
    }
    const json::value& spec = object.at("spec");
    std::string session_id(spec.at("session_id").as_string());
    model::BoxSettings settings = model::read_box_settings(spec);
    settings.name_space = name_space_of(session_id);
    return {.session_id = std::move(session_id),
            .settings = std::move(settings),
            .box = std::string(object.at("box").as_string()),
            .created_at = timestamp(object.at("created_at")),
            .last_used_at = timestamp(object.at("last_used_at")),
            .last_used =
                Deadline(Deadline::duration(object.at("last_used").to_number<Deadline::rep>())),
            .execs = object.at("execs").to_number<std::uint64_t>()};
  } catch (const std::exception& error) {
    throw Error(ErrorCode::protocol_error, str("a kept session cannot be read: ", error.what()));
  }
}

}  // namespace caisson::session
