#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "net/http.h"

namespace caisson::net {

enum class BodyKind {
  json,  // a body must be application/json; none at all is fine
  any,   // files and archives, read whole or in pieces
};

struct RouteOptions {
  std::uint64_t max_body = 1u << 20;  // kUnlimited for a body that is read in pieces
  BodyKind body = BodyKind::json;
  bool needs_token = true;  // where the daemon requires one
  // A websocket that is asked for with this header may be asked for under any name of the host: no
  // web page can make a browser send it. Empty: there is none.
  std::string unforgeable_header = {};
  bool websocket = false;  // GET; whoever does not ask for a websocket properly is refused
  bool judges_handshake =
      false;  // by the handler, with refuse_handshake(), after what it judges first
};

struct Route {
  std::string method;
  std::string pattern;
  Handler handler;
  RouteOptions options;
};

// Which handler answers which request. Filled before the server runs, read-only from then on.
class Router {
 public:
  Router();
  Router(const Router&) = delete;
  Router& operator=(const Router&) = delete;
  ~Router();

  // add("POST", "/v1/sessions/{id}/exec", handler): a segment in braces takes any one segment that
  // is not empty. A literal segment goes before it. HEAD is answered by the handler of GET.
  void add(std::string method, std::string pattern, Handler handler, RouteOptions options = {});

  // From now on, what is awaited before the handler of every route that has this parameter.
  void await_before(std::string parameter, Handler wait);

  struct Match {
    const Route* route = nullptr;  // null: no such path, or not with this method
    std::vector<std::pair<std::string_view, std::string>> params;  // names live in the router
    std::string allow;  // the methods of the path; empty: there is no such path
  };
  Match find(const Request& request) const;

  // In the order they were added.
  std::vector<const Route*> routes() const;

 private:
  struct Node;
  std::unique_ptr<Node> root_;
  std::vector<std::unique_ptr<Route>> routes_;
  std::string awaited_segment_;  // "{id}"; empty: none
  Handler wait_;
};

}  // namespace caisson::net
