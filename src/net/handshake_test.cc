#include "net/handshake.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "net/sha1.h"

namespace caisson::net {
namespace {

constexpr std::string_view kKey = "dGhlIHNhbXBsZSBub25jZQ==";

std::string hex(std::string_view text) {
  std::string out;
  for (const char c : sha1(text)) {
    out.push_back("0123456789abcdef"[static_cast<unsigned char>(c) >> 4]);
    out.push_back("0123456789abcdef"[static_cast<unsigned char>(c) & 15]);
  }
  return out;
}

Request handshake() {
  Request request;
  request.method = "GET";
  request.headers = {{"Upgrade", "websocket"},
                     {"Connection", "keep-alive, Upgrade"},
                     {"Sec-WebSocket-Version", "13"},
                     {"Sec-WebSocket-Key", std::string(kKey)}};
  return request;
}

Request with(std::string_view name, std::string value) {
  Request request = handshake();
  for (Header& header : request.headers) {
    if (header.name == name) header.value = std::move(value);
  }
  return request;
}

Request without(std::string_view name) {
  Request request = handshake();
  std::erase_if(request.headers, [&](const Header& header) { return header.name == name; });
  return request;
}

Request and_also(std::string name, std::string value) {
  Request request = handshake();
  request.headers.push_back({std::move(name), std::move(value)});
  return request;
}

int status_for(const Request& request) {
  const auto refusal = refuse_handshake(request);
  return refusal ? refusal->status : 101;
}

TEST(Sha1, GivesTheDigestsOfTheStandard) {
  EXPECT_EQ(hex(""), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
  EXPECT_EQ(hex("abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
  EXPECT_EQ(hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
  EXPECT_EQ(hex(std::string(1'000'000, 'a')), "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
}

TEST(Handshake, AnswersTheKeyOfTheStandard) {
  EXPECT_EQ(accept_of_key(kKey), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}

TEST(Handshake, MakesKeysThatItAccepts) {
  const std::string key = make_websocket_key();
  EXPECT_EQ(status_for(with("Sec-WebSocket-Key", key)), 101) << key;
  EXPECT_NE(key, make_websocket_key());
}

TEST(Handshake, RefusesWhatIsNotProper) {
  EXPECT_EQ(status_for(handshake()), 101);
  EXPECT_EQ(status_for(with("Upgrade", "WebSocket")), 101);
  EXPECT_EQ(status_for(with("Upgrade", "h2c, websocket")), 101);
  EXPECT_EQ(status_for(with("Connection", "upgrade")), 101);
  EXPECT_EQ(status_for(without("Upgrade")), 426);
  EXPECT_EQ(status_for(with("Upgrade", "h2c")), 426);
  EXPECT_EQ(status_for(without("Connection")), 400);
  EXPECT_EQ(status_for(with("Connection", "keep-alive")), 400);
  EXPECT_EQ(status_for(with("Sec-WebSocket-Version", "8")), 426);
  EXPECT_EQ(status_for(with("Sec-WebSocket-Version", "13, 8")), 426);
  EXPECT_EQ(status_for(without("Sec-WebSocket-Version")), 400);
  EXPECT_EQ(status_for(and_also("Sec-WebSocket-Version", "13")), 400);
  EXPECT_EQ(status_for(without("Sec-WebSocket-Key")), 400);
  EXPECT_EQ(status_for(and_also("sec-websocket-key", std::string(kKey))), 400);
  EXPECT_EQ(status_for(and_also("Sec-WebSocket-Protocol", "a b")), 400);
  for (const char* key : {"", "short", "dGhlIHNhbXBsZSBub25jZQ=", "dGhlIHNhbXBsZSBub25jZR==",
                          "dGhlIHNhbXBsZSBub25jZQQ=", "dGhlIHNhbXBsZS*ub25jZQ=="}) {
    EXPECT_EQ(status_for(with("Sec-WebSocket-Key", key)), 400) << key;
  }
  Request post = handshake();
  post.method = "POST";
  EXPECT_EQ(status_for(post), 426);
  Request old = handshake();
  old.minor_version = 0;
  EXPECT_EQ(status_for(old), 426);
  Request body = handshake();
  body.content_length = 1;
  EXPECT_EQ(status_for(body), 400);
}

TEST(Handshake, TellsWhichUpgradeItWants) {
  const Response refusal = *refuse_handshake(with("Sec-WebSocket-Version", "8"));
  EXPECT_EQ(*find_header(refusal.headers, "upgrade"), "websocket");
  EXPECT_EQ(*find_header(refusal.headers, "sec-websocket-version"), "13");
}

TEST(Handshake, KeepsTheTokenOutOfWhatIsOffered) {
  Request request = and_also("Sec-WebSocket-Protocol", "mcp, caisson.bearer.secret");
  request.headers.push_back({"sec-websocket-protocol", " other "});
  EXPECT_EQ(offered_subprotocols(request), (std::vector<std::string>{"mcp", "other"}));
  EXPECT_EQ(*find_header(accept_headers(request, "mcp"), "sec-websocket-protocol"), "mcp");
  EXPECT_EQ(find_header(accept_headers(request, ""), "sec-websocket-protocol"), nullptr);
  EXPECT_THROW(accept_headers(request, "caisson.bearer.secret"), Error);
  EXPECT_THROW(accept_headers(request, "third"), Error);
}

std::string fault_of(std::vector<Header> headers) {
  Response response{.status = 101, .headers = std::move(headers)};
  return std::string(check_accepted(response, std::string(kKey), {"mcp", "other"}).fault);
}

TEST(Handshake, ChecksTheAnswerOfAServer) {
  const std::vector<Header> good = {{"Upgrade", "websocket"},
                                    {"Connection", "Upgrade"},
                                    {"Sec-WebSocket-Accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="}};
  EXPECT_EQ(fault_of(good), "");
  const auto and_header = [&](std::string name, std::string value) {
    std::vector<Header> headers = good;
    headers.push_back({std::move(name), std::move(value)});
    return headers;
  };
  EXPECT_EQ(fault_of(and_header("Sec-WebSocket-Protocol", "other")), "");
  EXPECT_NE(fault_of(and_header("Sec-WebSocket-Protocol", "third")), "");
  EXPECT_NE(fault_of(and_header("Sec-WebSocket-Extensions", "permessage-deflate")), "");
  EXPECT_NE(fault_of(and_header("Sec-WebSocket-Accept", "twice")), "");
  EXPECT_NE(fault_of({good[0], good[1]}), "");
  EXPECT_NE(fault_of({good[0], good[2]}), "");
  EXPECT_NE(fault_of({good[1], good[2]}), "");
  EXPECT_NE(fault_of({good[0], good[1], {"Sec-WebSocket-Accept", "wrong"}}), "");
}

TEST(Handshake, RefusesToOfferWhatIsNoName) {
  EXPECT_THROW(request_headers("key", {"a, b"}), Error);
  EXPECT_EQ(*find_header(request_headers("key", {"a", "b"}), "Sec-WebSocket-Protocol"), "a, b");
}

}  // namespace
}  // namespace caisson::net
