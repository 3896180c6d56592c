#include "api/rpc/routes.h"

#include <algorithm>
#include <boost/asio/this_coro.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <utility>
#include <vector>

#include "api/relay.h"
#include "api/rpc/connection.h"
#include "api/rpc/envelope.h"
#include "base/error.h"
#include "base/str.h"
#include "base/text.h"
#include "base/utf8.h"
#include "model/generation.h"
#include "model/timestamp.h"
#include "net/guard.h"
#include "net/handshake.h"
#include "net/websocket.h"
#include "session/processes.h"

namespace caisson::api::rpc {

namespace json = boost::json;

namespace {

constexpr std::size_t kMaxLegacyAnswer = (1u << 20) - 1024;  // the least that old clients take
constexpr std::size_t kMaxWorkspace = 256;

net::Response plain(int status, std::string text) {
  net::Response response;
  response.status = status;
  response.content_type = "text/plain; charset=utf-8";
  response.body = std::move(text);
  return response;
}

// LangBot's runtime gives no reason; ours is in the log, and told to a user of this host whom a
// line of the configuration would let in.
net::Response unauthorized(std::string reason, const net::Peer& peer) {
  const bool told = peer.uid && !peer.is_known();
  net::Response response = plain(401, told ? str("Unauthorized: ", reason) : "Unauthorized");
  response.reason = std::move(reason);
  return response;
}

// As LangBot's runtime answers who does not ask for a websocket.
std::optional<net::Response> refuse_other_requests(const net::Request& request) {
  if (!net::refuse_handshake(request)) return std::nullopt;
  return plain(400, "400: Bad Request: a websocket handshake is expected here");
}

// As LangBot's runtime tells why there is no relay.
net::Response relay_refusal(const Error& error) {
  net::Response response;
  response.status = 400;
  response.body = json::serialize(json::object{
      {"error", {{"code", failure_kind(error)}, {"message", std::string_view(error.what())}}}});
  return response;
}

class WebSocketChannel final : public Channel {
 public:
  explicit WebSocketChannel(net::WebSocket socket) : socket_(std::move(socket)) {}

  // A binary message is none of ours: the conversation ends.
  Task<std::optional<std::string>> read() override {
    std::optional<net::Message> message = co_await socket_.read();
    if (!message || message->kind != net::MessageKind::text) co_return std::nullopt;
    co_return std::move(message->data);
  }

  Task<bool> write(std::string text) override {
    co_return co_await socket_.write_text(std::move(text));
  }

  Task<void> close() { co_await socket_.close(); }

 private:
  net::WebSocket socket_;
};

Task<void> serve_host(Runtime& runtime, net::Exchange& exchange) {
  const net::Request& request = exchange.request();
  const std::optional<Door::Visitor> visitor = runtime.door().judge(request, exchange.peer());
  if (!visitor) {
    const net::Peer& peer = exchange.peer();
    co_await exchange.reply(unauthorized(runtime.door().refusal(request, peer), peer));
    co_return;
  }
  if (auto refusal = refuse_other_requests(request)) {
    co_await exchange.reply(std::move(*refusal));
    co_return;
  }
  const bool legacy = visitor->instance.empty();
  Host host{.instance = visitor->instance,
            .legacy = legacy,
            .shown_token = visitor->shown_token,
            .splits_messages = legacy,
            .max_answer = legacy ? kMaxLegacyAnswer : kMaxMessage,
            .share = exchange.share()};
  net::WebSocketOptions options;
  options.max_message = kMaxMessage - 1;
  net::WebSocket socket = co_await exchange.accept_websocket(std::move(options));
  WebSocketChannel channel(std::move(socket));
  Connection connection(co_await boost::asio::this_coro::executor, runtime, channel,
                        std::move(host));
  co_await connection.run();
  co_await channel.close();
}

// A generation: "1", not "01" or "+1".
std::optional<std::int64_t> canonical_generation(std::string_view text) {
  const auto number = parse_integer(text);
  if (!number || *number < 1 || str(*number) != text) return std::nullopt;
  if (*number > model::kMaxGeneration) return std::nullopt;
  return *number;
}

// nullopt: the headers name no tenant of ours, or not this session's.
std::optional<session::Tenant> relay_tenant(Runtime& runtime, const net::Exchange& exchange,
                                            const std::string& session_id) {
  const net::Request& request = exchange.request();
  if (!runtime.door().is_trusted(request, exchange.peer())) return std::nullopt;
  const std::string* workspace = request.find(kWorkspaceHeader);
  const std::string* generation = request.find(kGenerationHeader);
  if (workspace == nullptr || generation == nullptr) return std::nullopt;
  const std::string_view name = trim(*workspace);
  const std::optional<std::int64_t> number = canonical_generation(trim(*generation));
  if (name.empty() || name.size() > kMaxWorkspace || !is_utf8(name) || !number) {
    return std::nullopt;
  }
  session::Tenant tenant{.instance = runtime.door().trusted_instance(),
                         .workspace = std::string(name),
                         .generation = *number};
  if (!runtime.is_current(workspace_namespace(tenant), *number)) return std::nullopt;
  const std::string prefix = placement_prefix(tenant);
  if (!session_id.starts_with(prefix) || session_id.size() == prefix.size()) return std::nullopt;
  return tenant;
}

// Users of the daemon say nothing of LangBot. A tenant's processes they may look at, in our own
// protocol, as an operator's tools do; whoever writes to them acts for the tenant.
std::optional<net::Response> refuse_user(Runtime& runtime, const net::Exchange& exchange,
                                         const std::string& session_id) {
  const net::Request& request = exchange.request();
  const net::Peer& peer = exchange.peer();
  const std::vector<std::string> offered = net::offered_subprotocols(request);
  const bool ours = std::find(offered.begin(), offered.end(), kOffsetsProtocol) != offered.end();
  const Door& door = runtime.door();
  if (!(ours ? door.is_user(request, peer) : door.may_come(request, peer))) {
    throw Error(ErrorCode::unauthorized, net::unauthorized_message(peer));
  }
  const std::string* mode = request.find_query("attach");
  const bool looks = ours && mode != nullptr && *mode == "observe";
  if (looks || !session::find_placement(session_id)) return std::nullopt;
  return unauthorized("the session is a tenant's", peer);
}

}  // namespace

std::optional<net::Response> refuse_relay(Runtime& runtime, const net::Exchange& exchange,
                                          const std::string& session_id,
                                          const std::string& process_id) {
  const net::Request& request = exchange.request();
  if (request.find(kInstanceHeader) == nullptr) return refuse_user(runtime, exchange, session_id);
  const std::optional<session::Tenant> tenant = relay_tenant(runtime, exchange, session_id);
  if (!tenant) return unauthorized("no tenant of this session is named", exchange.peer());
  try {
    if (runtime.admission().required()) {
      runtime.admission().check_processes(*tenant, model::now());
    }
    const auto process = runtime.services().processes.get(session_id, process_id);
    if (process->running()) return refuse_other_requests(request);
    throw Error(ErrorCode::managed_process_conflict,
                str("managed process ", printable(process_id), " in session ", session_id,
                    " is not running"));
  } catch (const Error& error) {
    return relay_refusal(error);
  }
}

void add_routes(net::Router& router, Runtime& runtime) {
  router.add("GET", "/rpc/ws",
             [&runtime](net::Exchange& exchange) { return serve_host(runtime, exchange); },
             {.needs_token = false,
              .unforgeable_header = kInstanceHeader,
              .websocket = true,
              .judges_handshake = true});
}

}  // namespace caisson::api::rpc
