#include "net/router.h"

#include <algorithm>
#include <map>
#include <span>

#include "base/error.h"
#include "base/str.h"
#include "base/text.h"

namespace caisson::net {

// One place in the tree of paths.
struct Router::Node {
  std::map<std::string, std::unique_ptr<Node>, std::less<>> literals;
  std::unique_ptr<Node> parameter;
  std::string parameter_name;
  std::vector<const Route*> routes;  // that end here, one per method

  using Params = std::vector<std::pair<std::string_view, std::string>>;

  // The node that the path leads to and that has routes; null when there is none.
  const Node* find(std::span<const std::string> path, Params& params) const {
    if (path.empty()) return routes.empty() ? nullptr : this;
    if (const auto literal = literals.find(path.front()); literal != literals.end()) {
      if (const Node* found = literal->second->find(path.subspan(1), params)) return found;
    }
    if (parameter == nullptr || path.front().empty()) return nullptr;
    params.emplace_back(parameter_name, path.front());
    if (const Node* found = parameter->find(path.subspan(1), params)) return found;
    params.pop_back();
    return nullptr;
  }

  Node& child(std::string_view segment, std::string_view pattern) {
    std::unique_ptr<Node>* next = nullptr;
    if (segment.starts_with('{') && segment.ends_with('}')) {
      const std::string_view name = segment.substr(1, segment.size() - 2);
      if (parameter != nullptr && parameter_name != name) {
        throw Error(ErrorCode::internal_error, str("route ", pattern, ": another route calls {",
                                                   name, "} {", parameter_name, "}; use one name"));
      }
      parameter_name = name;
      next = &parameter;
    } else {
      next = &literals[std::string(segment)];
    }
    if (*next == nullptr) *next = std::make_unique<Node>();
    return **next;
  }
};

Router::Router() : root_(std::make_unique<Node>()) {}
Router::~Router() = default;

void Router::await_before(std::string parameter, Handler wait) {
  awaited_segment_ = "{" + std::move(parameter) + "}";
  wait_ = std::move(wait);
}

void Router::add(std::string method, std::string pattern, Handler handler, RouteOptions options) {
  Node* node = root_.get();
  bool awaited = false;
  if (pattern != "/") {
    for (const std::string_view segment : split(std::string_view(pattern).substr(1), '/')) {
      node = &node->child(segment, pattern);
      awaited = awaited || segment == awaited_segment_;
    }
  }
  if (awaited) {
    handler = [wait = wait_, answer = std::move(handler)](Exchange& exchange) -> Task<void> {
      co_await wait(exchange);
      co_await answer(exchange);
    };
  }
  for (const Route* other : node->routes) {
    if (other->method == method) {
      throw Error(ErrorCode::internal_error, str("route ", method, " ", pattern, " added twice"));
    }
  }
  routes_.push_back(std::make_unique<Route>(
      Route{std::move(method), std::move(pattern), std::move(handler), std::move(options)}));
  node->routes.push_back(routes_.back().get());
}

Router::Match Router::find(const Request& request) const {
  Match match;
  const Node* node = root_->find(request.path, match.params);
  if (node == nullptr) return match;
  std::string_view method = request.method;
  if (method == "HEAD") method = "GET";
  std::vector<std::string> allowed;
  for (const Route* route : node->routes) {
    if (route->method == method) {
      match.route = route;
      return match;
    }
    allowed.push_back(route->method);
    if (route->method == "GET") allowed.emplace_back("HEAD");
  }
  std::sort(allowed.begin(), allowed.end());
  match.allow = join(allowed, ", ");
  return match;
}

std::vector<const Route*> Router::routes() const {
  std::vector<const Route*> all;
  all.reserve(routes_.size());
  for (const auto& route : routes_) all.push_back(route.get());
  return all;
}

}  // namespace caisson::net
