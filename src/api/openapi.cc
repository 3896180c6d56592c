#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <utility>

#include "api/api.h"
#include "api/openapi_text.h"

namespace caisson::api {

namespace json = boost::json;

json::object openapi_document(const std::string& version) {
  json::object document = json::parse(kOpenapiText).as_object();
  document["info"].as_object()["version"] = version;
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
