#include "net/guard.h"

#include <gtest/gtest.h>

#include "base/str.h"

namespace caisson::net {
namespace {

constexpr std::string_view kToken = "0123456789abcdef0123456789abcdef";

GuardConfig loopback() {
  return {.port = 5410,
          .host_names = {"box.example", "proxy.example:443", "[fe80::1]"},
          .origins = {"https://box.example"}};
}

GuardConfig with_token() {
  GuardConfig config = loopback();
  config.token = kToken;
  return config;
}

Request request_with(std::vector<Header> headers, std::string method = "GET") {
  Request request;
  request.method = std::move(method);
  request.headers = std::move(headers);
  if (request.find("host") == nullptr) request.headers.push_back({"Host", "localhost:5410"});
  return request;
}

const Peer kKnown{.name = "127.0.0.1", .trust = Trust::user};
const Peer kStranger{.name = "127.0.0.1"};

// Whoever asks is known unless the token is what it is about.
int status(const Request& request, const GuardConfig& config, bool needs_token = true) {
  const Peer& peer = config.token.empty() ? kKnown : kStranger;
  const auto refusal = judge(request, config, peer, needs_token).refusal;
  return refusal ? refusal->status : 200;
}

int status_of_host(const std::string& host) {
  return status(request_with({{"Host", host}}), loopback());
}

TEST(Guard, LetsTheAllowedHostsPassInEverySpelling) {
  for (const char* host :
       {"localhost:5410", "127.0.0.1:5410", "[::1]:5410", "LOCALHOST:5410", "localhost.:5410",
        "[0:0:0:0:0:0:0:1]:5410", "box.example:5410", "Box.Example.:5410", "user@localhost:5410",
        "proxy.example:443", "[FE80::1]:5410", "localhost:05410"}) {
    EXPECT_EQ(status_of_host(host), 200) << host;
  }
}

// A web page is reached by a name that somebody else's name server gives out. An address is what it
// is, and its port may be one that is forwarded to ours.
TEST(Guard, LetsEveryAddressPassWithoutLeave) {
  for (const char* host :
       {"127.0.0.1", "127.0.0.1:8080", "127.0.0.2:5410", "192.0.2.1", "0.0.0.0:5410", "[::1]",
        "[::]:5410", "[2001:DB8::1]:443", "[::ffff:127.0.0.1]:5410"}) {
    EXPECT_EQ(status_of_host(host), 200) << host;
  }
  for (const char* host : {"127.0.0.1.evil.example:5410", "192.0.2", "192.0.2.256", "0x7f.0.0.1",
                           "127.0.0.01", "user@127.0.0.1:5410", "[::1%lo]:5410"}) {
    EXPECT_EQ(status_of_host(host), 403) << host;
  }
}

TEST(Guard, SaysWhereANameIsAllowed) {
  const auto refusal =
      judge(request_with({{"Host", "evil.example"}}), loopback(), kKnown, true).refusal;
  ASSERT_TRUE(refusal);
  EXPECT_NE(refusal->message.find("caisson.allowed_hosts"), std::string::npos);
}

TEST(Guard, SaysWhichLineLetsAUserIn) {
  const Peer peer{.name = "127.0.0.1", .uid = 1001};
  const auto refusal = judge(request_with({}), with_token(), peer, true).refusal;
  ASSERT_TRUE(refusal);
  EXPECT_NE(refusal->message.find("\"allowed_users: [1001]\" below \"caisson:\""),
            std::string::npos);
}

TEST(Guard, TakesAProxysUserForNobody) {
  const Request request = request_with({{"X-Forwarded-For", "192.0.2.1"}});
  EXPECT_EQ(judge(request, with_token(), kKnown, true).refusal->status, 401);
  EXPECT_EQ(judge(request, with_token(), kKnown, false).trust, Trust::none);
  const Peer open{.name = "127.0.0.1", .trust = Trust::open};
  EXPECT_FALSE(judge(request, with_token(), open, true).refusal);
  GuardConfig unix_socket = with_token();
  unix_socket.check_host = false;
  EXPECT_FALSE(judge(request, unix_socket, kKnown, true).refusal);
}

TEST(Guard, RefusesEveryOtherHost) {
  for (const char* host : {"evil.example",
                           "evil.example:5410",
                           "localhost.evil.example:5410",
                           "localhost",
                           "localhost:",
                           "localhost:5411",
                           "localhost:80",
                           "localhost@evil.example:5410",
                           "127.1:5410",
                           "2130706433:5410",
                           "::1:5410",
                           "",
                           ":5410",
                           "localhost..:5410",
                           "localhost:5410:5410",
                           "localhost:+5410",
                           "localhost:70946",
                           "localhost\t:5410",
                           "local host:5410",
                           "[::1:5410",
                           "[::1]x:5410",
                           "proxy.example:5410",
                           "box.example",
                           "localhost/:5410",
                           "localhost,evil:5410"}) {
    EXPECT_EQ(status_of_host(host), 403) << host;
  }
}

TEST(Guard, RefusesARequestThatNamesNoHost) {
  Request request;
  request.method = "GET";
  EXPECT_EQ(status(request, loopback()), 403);
}

TEST(Guard, JudgesTheAuthorityOfAnAbsoluteTargetToo) {
  Request request = request_with({});
  request.target_authority = "evil.example:5410";
  EXPECT_EQ(status(request, loopback()), 403);
  request.target_authority = "LocalHost.:5410";
  EXPECT_EQ(status(request, loopback()), 200);
  request.headers = {{"Host", "evil.example"}};
  EXPECT_EQ(status(request, loopback()), 403);
}

TEST(Guard, AsksForNoHostWhereNoBrowserComesFrom) {
  GuardConfig config = loopback();
  config.check_host = false;
  EXPECT_EQ(status(request_with({{"Host", "whatever"}}), config), 200);
}

TEST(Guard, RefusesForeignOriginsWhateverTheMethod) {
  for (const char* method : {"GET", "HEAD", "POST", "DELETE", "OPTIONS"}) {
    for (const char* origin :
         {"http://evil.example", "null", "", "http://localhost", "http://localhost:5411",
          "https://localhost:5410", "http://localhost:5410/", "http://LOCALHOST:5410",
          "http://localhost.evil.example:5410", "https://box.example:5410", "http://box.example",
          "https://box.example, https://box.example"}) {
      EXPECT_EQ(status(request_with({{"origin", origin}}, method), loopback()), 403)
          << method << " " << origin;
    }
  }
}

TEST(Guard, LetsItsOwnAndTheConfiguredOriginsPass) {
  for (const char* origin : {"http://localhost:5410", "http://127.0.0.1:5410", "http://[::1]:5410",
                             "https://box.example"}) {
    EXPECT_EQ(status(request_with({{"Origin", origin}}, "POST"), loopback()), 200) << origin;
  }
  EXPECT_EQ(
      status(request_with({{"Origin", "http://localhost:5410"}, {"Origin", "null"}}), loopback()),
      403);
}

TEST(Guard, RefusesRequestsThatABrowserMarksAsCrossSite) {
  EXPECT_EQ(status(request_with({{"Sec-Fetch-Site", "cross-site"}}), loopback()), 403);
  EXPECT_EQ(status(request_with({{"Sec-Fetch-Site", "same-origin"}}), loopback()), 200);
  EXPECT_EQ(status(request_with({{"Sec-Fetch-Site", "none"}}), loopback()), 200);
}

TEST(Guard, WantsTheTokenWhereOneIsRequired) {
  const auto bearer = [](std::string_view token) {
    return request_with({{"Authorization", str("Bearer ", token)}});
  };
  EXPECT_EQ(status(bearer(kToken), with_token()), 200);
  EXPECT_EQ(status(request_with({{"authorization", str("bearer  ", kToken)}}), with_token()), 200);
  EXPECT_EQ(status(request_with({}), with_token()), 401);
  EXPECT_EQ(status(request_with({}), with_token(), /*needs_token=*/false), 200);
  for (const std::string& wrong :
       {std::string(), std::string("0"), std::string(kToken) + "0", std::string(kToken.substr(1)),
        std::string(kToken) + std::string(kToken)}) {
    EXPECT_EQ(status(bearer(wrong), with_token()), 401) << wrong;
    EXPECT_EQ(status(bearer(wrong), with_token(), /*needs_token=*/false), 401) << wrong;
  }
  EXPECT_EQ(status(request_with({{"Authorization", str("Basic ", kToken)}}), with_token()), 401);
  EXPECT_EQ(status(request_with({{"Authorization", std::string(kToken)}}), with_token()), 401);
  const Header right{"Authorization", str("Bearer ", kToken)};
  EXPECT_EQ(status(request_with({right, right}), with_token()), 401);
}

TEST(Guard, SaysTheSameOfAMissingAndOfAWrongToken) {
  const auto missing = judge(request_with({}), with_token(), kStranger, true).refusal;
  const auto wrong =
      judge(request_with({{"Authorization", "Bearer x"}}), with_token(), kStranger, true).refusal;
  ASSERT_TRUE(missing && wrong);
  EXPECT_EQ(missing->message, wrong->message);
  EXPECT_EQ(missing->code, ErrorCode::unauthorized);
}

TEST(Guard, RefusesAWrongTokenEvenFromAPeerThatNeedsNone) {
  for (const GuardConfig& config : {loopback(), with_token()}) {
    for (const char* wrong : {"Bearer x", "Bearer "}) {
      EXPECT_EQ(
          judge(request_with({{"Authorization", wrong}}), config, kKnown, true).refusal->status,
          401);
    }
  }
}

TEST(Guard, TellsWhyARequestIsTrusted) {
  const Request plain = request_with({});
  const Request with_right_token = request_with({{"Authorization", str("Bearer ", kToken)}});
  EXPECT_EQ(judge(plain, with_token(), kKnown, true).trust, Trust::user);
  EXPECT_EQ(judge(with_right_token, with_token(), kKnown, true).trust, Trust::token);
  EXPECT_EQ(judge(with_right_token, with_token(), kStranger, true).trust, Trust::token);
  EXPECT_EQ(judge(plain, with_token(), kStranger, false).trust, Trust::none);
  EXPECT_EQ(judge(plain, with_token(), kStranger, true).trust, Trust::none);
}

TEST(Guard, TakesTheTokenOfAWebSocketFromItsSubprotocols) {
  const auto offering = [](std::string subprotocols) {
    return request_with(
        {{"Upgrade", "websocket"}, {"Sec-WebSocket-Protocol", std::move(subprotocols)}});
  };
  const std::string entry = str("caisson.bearer.", kToken);
  EXPECT_EQ(status(offering(entry), with_token()), 200);
  EXPECT_EQ(status(offering("mcp, " + entry), with_token()), 200);
  EXPECT_EQ(status(offering("mcp"), with_token()), 401);
  EXPECT_EQ(status(offering("caisson.bearer."), with_token()), 401);
  EXPECT_EQ(status(offering("caisson.bearer.x"), loopback()), 401);
  EXPECT_EQ(status(offering(entry + ", " + entry), with_token()), 401);
  Request twice = offering(entry);
  twice.headers.push_back({"Authorization", str("Bearer ", kToken)});
  EXPECT_EQ(status(twice, with_token()), 401);
  EXPECT_EQ(status(request_with({{"Sec-WebSocket-Protocol", entry}}), with_token()), 401);
}

TEST(Guard, RefusesATokenInTheQuery) {
  for (const char* name : {"token", "access_token", "Token"}) {
    Request request = request_with({{"Authorization", str("Bearer ", kToken)}});
    request.query = {{name, std::string(kToken)}};
    EXPECT_EQ(status(request, with_token()), 400) << name;
  }
}

TEST(Guard, ComparesSecretsOfAnyLength) {
  EXPECT_TRUE(equal_in_constant_time("abc", "abc"));
  EXPECT_FALSE(equal_in_constant_time("abc", "abd"));
  EXPECT_FALSE(equal_in_constant_time("abcabc", "abc"));
  EXPECT_FALSE(equal_in_constant_time("", "abc"));
  EXPECT_FALSE(equal_in_constant_time("", ""));
}

}  // namespace
}  // namespace caisson::net
