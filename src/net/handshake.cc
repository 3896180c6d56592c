#include "net/handshake.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/base64.h"
#include "base/error.h"
#include "base/random.h"
#include "base/str.h"
#include "base/text.h"
#include "net/error_status.h"
#include "net/sha1.h"

namespace caisson::net {

namespace {

constexpr std::string_view kKeySuffix = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
constexpr std::string_view kBase64 =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

// 16 bytes are 22 digits and two paddings; the last digit has only two bits of its own.
bool is_key(std::string_view key) {
  if (key.size() != 24 || !key.ends_with("==")) return false;
  const std::string_view digits = key.substr(0, 22);
  if (digits.find_first_not_of(kBase64) != std::string_view::npos) return false;
  return kBase64.find(digits.back()) % 16 == 0;
}

bool has_entry(const std::vector<Header>& headers, std::string_view name, std::string_view entry) {
  const std::vector<std::string_view> entries = list_header(headers, name);
  return std::any_of(entries.begin(), entries.end(),
                     [&](std::string_view one) { return same_name(one, entry); });
}

// The value of a header that must be there just once; null otherwise.
const std::string* find_single(const std::vector<Header>& headers, std::string_view name) {
  const auto count = std::count_if(headers.begin(), headers.end(), [&](const Header& header) {
    return same_name(header.name, name);
  });
  return count == 1 ? find_header(headers, name) : nullptr;
}

bool is_token(std::string_view text) {
  constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
    return is_ascii_alphanumeric(c) || kMarks.find(c) != std::string_view::npos;
  });
}

Response malformed(std::string_view why) {
  return error_response(400, ErrorCode::validation_error, str("bad websocket handshake: ", why));
}

Response upgrade_required(std::string_view message) {
  Response response = error_response(426, ErrorCode::validation_error, message);
  response.headers = {
      {"Upgrade", "websocket"}, {"Connection", "Upgrade"}, {"Sec-WebSocket-Version", "13"}};
  return response;
}

}  // namespace

std::vector<std::string_view> list_header(const std::vector<Header>& headers,
                                          std::string_view name) {
  std::vector<std::string_view> entries;
  for (const Header& header : headers) {
    if (!same_name(header.name, name)) continue;
    for (const std::string_view piece : split(header.value, ',')) {
      if (const std::string_view entry = trim(piece); !entry.empty()) entries.push_back(entry);
    }
  }
  return entries;
}

bool asks_for_websocket(const Request& request) {
  return has_entry(request.headers, "upgrade", "websocket");
}

std::optional<Response> refuse_handshake(const Request& request) {
  if (!asks_for_websocket(request) || request.method != "GET" || request.minor_version == 0) {
    return upgrade_required("this address speaks websocket only; ask for an upgrade");
  }
  if (!has_entry(request.headers, "connection", "upgrade")) {
    return malformed("Connection does not say Upgrade");
  }
  if (request.has_body()) return malformed("it has a body");
  const std::string* version = find_single(request.headers, "sec-websocket-version");
  if (version == nullptr) return malformed("it needs one Sec-WebSocket-Version");
  if (*version != "13") return upgrade_required("the only version of websocket here is 13");
  const std::string* key = find_single(request.headers, "sec-websocket-key");
  if (key == nullptr || !is_key(*key)) {
    return malformed("Sec-WebSocket-Key must be 16 bytes in base64");
  }
  const auto offered = list_header(request.headers, "sec-websocket-protocol");
  if (!std::all_of(offered.begin(), offered.end(), is_token)) {
    return malformed("Sec-WebSocket-Protocol must be a list of names");
  }
  return std::nullopt;
}

std::vector<std::string> offered_subprotocols(const Request& request) {
  std::vector<std::string> offered;
  for (const std::string_view entry : list_header(request.headers, "sec-websocket-protocol")) {
    if (!entry.starts_with(kBearerSubprotocol)) offered.emplace_back(entry);
  }
  return offered;
}

std::vector<Header> accept_headers(const Request& request, const std::string& subprotocol) {
  std::vector<Header> headers = {
      {"Upgrade", "websocket"},
      {"Connection", "Upgrade"},
      {"Sec-WebSocket-Accept", accept_of_key(*request.find("sec-websocket-key"))}};
  if (subprotocol.empty()) return headers;
  const std::vector<std::string> offered = offered_subprotocols(request);
  if (std::find(offered.begin(), offered.end(), subprotocol) == offered.end()) {
    throw Error(ErrorCode::internal_error,
                str("the client did not offer the subprotocol ", subprotocol));
  }
  headers.push_back({"Sec-WebSocket-Protocol", subprotocol});
  return headers;
}

std::string make_websocket_key() {
  std::string bytes(16, '\0');
  fill_randomly(bytes.data(), bytes.size());
  return encode_base64(bytes);
}

std::string accept_of_key(std::string_view key) {
  const std::array<char, 20> digest = sha1(str(key, kKeySuffix));
  return encode_base64({digest.data(), digest.size()});
}

std::vector<Header> request_headers(const std::string& key,
                                    const std::vector<std::string>& subprotocols) {
  std::vector<Header> headers = {{"Upgrade", "websocket"},
                                 {"Connection", "Upgrade"},
                                 {"Sec-WebSocket-Version", "13"},
                                 {"Sec-WebSocket-Key", key}};
  for (const std::string& subprotocol : subprotocols) {
    if (!is_token(subprotocol)) {
      throw Error(ErrorCode::validation_error,
                  str("\"", printable(subprotocol), "\" cannot be the name of a subprotocol"));
    }
  }
  if (!subprotocols.empty()) {
    headers.push_back({"Sec-WebSocket-Protocol", join(subprotocols, ", ")});
  }
  return headers;
}

Accepted check_accepted(const Response& response, const std::string& key,
                        const std::vector<std::string>& subprotocols) {
  const std::vector<Header>& headers = response.headers;
  const std::string* upgrade = find_single(headers, "upgrade");
  if (upgrade == nullptr || !same_name(*upgrade, "websocket") ||
      !has_entry(headers, "connection", "upgrade")) {
    return {.fault = "it upgrades to something else"};
  }
  const std::string* accept = find_single(headers, "sec-websocket-accept");
  if (accept == nullptr || *accept != accept_of_key(key)) return {.fault = "it is not for our key"};
  if (find_header(headers, "sec-websocket-extensions") != nullptr) {
    return {.fault = "it has an extension that was not offered"};
  }
  if (find_header(headers, "sec-websocket-protocol") == nullptr) return {};
  const std::string* chosen = find_single(headers, "sec-websocket-protocol");
  if (chosen == nullptr ||
      std::find(subprotocols.begin(), subprotocols.end(), *chosen) == subprotocols.end()) {
    return {.fault = "it chooses a subprotocol that was not offered"};
  }
  return {.subprotocol = *chosen};
}

}  // namespace caisson::net
