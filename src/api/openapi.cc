#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <utility>

#include "api/api.h"
#include "api/openapi_text.h"
#include "model/box_fields.h"

namespace caisson::api {

namespace json = boost::json;

namespace {

void add_properties(json::object& schema, const json::object& properties) {
  json::object& known = schema.at("properties").as_object();
  for (const auto& [name, property] : properties) {
    if (!known.contains(name)) known[name] = property;
  }
}

}  // namespace

json::object openapi_document(const std::string& version) {
  json::object document = json::parse(kOpenapiText).as_object();
  document["info"].as_object()["version"] = version;
  // The text has what is not told by the table of fields.
  json::object& schemas = document.at("components").at("schemas").as_object();
  json::object request = model::request_schema();
  add_properties(schemas.at("ExecRequest").as_object(), request);
  request.erase("cmd");
  add_properties(schemas.at("BoxSpec").as_object(), request);
  json::object& session = schemas.at("Session").as_object();
  const json::object shown = model::session_schema();
  add_properties(session, shown);
  for (const auto& [name, property] : shown) session.at("required").as_array().emplace_back(name);
  return document;
}

void add_openapi_route(net::Router& router, const std::string& version) {
  std::string body = json::serialize(openapi_document(version));
  const auto answer = [body = std::move(body)](net::Exchange& exchange) -> Task<void> {
    net::Response response;
    response.body = body;
    co_await exchange.reply(std::move(response));
  };
  router.add("GET", "/openapi.json", answer, {.needs_token = false});
}

}  // namespace caisson::api
