#include "api/rpc/door.h"

#include <gtest/gtest.h>

namespace caisson::api::rpc {
namespace {

const std::string kToken(32, 't');

net::Request request(std::vector<net::Header> headers) {
  net::Request request;
  request.method = "GET";
  request.headers = std::move(headers);
  return request;
}

net::Request from(const std::string& instance) {
  return request({{kInstanceHeader, instance}});
}

const net::Peer kKnown{.name = "127.0.0.1", .trust = net::Trust::user};
const net::Peer kStranger{.name = "127.0.0.1", .uid = 1001};
const net::Peer kWithToken{.name = "127.0.0.1", .trust = net::Trust::token};

TEST(Door, LetsInWhoSaysWhichInstanceItIs) {
  const Door door({});
  const auto visitor = door.judge(request({{"x-langbot-instance-id", "  i-1.a:b_c  "}}), kKnown);
  ASSERT_TRUE(visitor);
  EXPECT_EQ(visitor->instance, "i-1.a:b_c");
  for (const std::string& name : {std::string(""), std::string("-a"), std::string("a b"),
                                  std::string("a/b"), std::string(129, 'a')}) {
    EXPECT_FALSE(door.judge(from(name), kKnown)) << name;
  }
  EXPECT_TRUE(door.judge(from(std::string(128, 'a')), kKnown));
}

TEST(Door, TrustsTheFirstThatSpeaksAndNotWhoOnlyAsks) {
  Door door({});
  EXPECT_TRUE(door.judge(from("first"), kKnown));
  EXPECT_EQ(door.trusted_instance(), "");
  const Door::Presence here(door, "second");
  EXPECT_TRUE(door.trust("second"));
  EXPECT_FALSE(door.judge(from("first"), kKnown));
  EXPECT_FALSE(door.trust("first"));
  EXPECT_TRUE(door.judge(from("second"), kKnown));
}

TEST(Door, LetsAnotherInstanceFollowOneThatHasGone) {
  Door door({});
  {
    const Door::Presence here(door, "first");
    EXPECT_TRUE(door.trust("first"));
    EXPECT_FALSE(door.judge(from("second"), kKnown));
  }
  EXPECT_TRUE(door.judge(from("second"), kKnown));
  EXPECT_TRUE(door.trust("second"));
  EXPECT_EQ(door.trusted_instance(), "second");
}

TEST(Door, NeverChangesAnInstanceThatWasConfiguredOrHasAToken) {
  Door configured({.trusted_instance = "only"});
  EXPECT_FALSE(configured.judge(from("other"), kKnown));
  EXPECT_FALSE(configured.judge(request({}), kKnown));
  EXPECT_TRUE(configured.judge(from("only"), kKnown));
  Door with_token({.control_token = kToken});
  EXPECT_TRUE(with_token.trust("first"));
  EXPECT_FALSE(with_token.trust("second"));
}

TEST(Door, AsksForTheTokenWhereThereIsOne) {
  const Door door({.control_token = kToken});
  EXPECT_FALSE(door.judge(from("i"), kKnown));
  EXPECT_FALSE(door.judge(request({{kInstanceHeader, "i"}, {kTokenHeader, kToken + "t"}}), kKnown));
  EXPECT_TRUE(door.judge(request({{kInstanceHeader, "i"}, {kTokenHeader, " " + kToken}}), kKnown));
  const Door open({});
  EXPECT_TRUE(open.judge(request({{kInstanceHeader, "i"}, {kTokenHeader, "whatever"}}), kKnown));
}

TEST(Door, TakesTheDaemonsOwnTokenAsWell) {
  const Door door({.daemon_token = "daemon", .token_required = true});
  EXPECT_FALSE(door.judge(from("i"), kStranger));
  EXPECT_TRUE(door.judge(request({{kInstanceHeader, "i"}, {kTokenHeader, "daemon"}}), kStranger));
  EXPECT_TRUE(door.judge(from("i"), kWithToken));
}

TEST(Door, IsClosedToWhoIsNotKnownAndShowsNothing) {
  Door door({.daemon_token = "daemon"});
  for (const net::Request& asked : {from("i"), request({})}) {
    EXPECT_TRUE(door.judge(asked, kKnown));
    EXPECT_FALSE(door.judge(asked, kStranger));
    EXPECT_FALSE(door.may_come(asked, kStranger));
    EXPECT_FALSE(door.is_user(asked, kStranger));
  }
  EXPECT_TRUE(door.trust("i"));
  EXPECT_TRUE(door.is_trusted(from("i"), kKnown));
  EXPECT_FALSE(door.is_trusted(from("i"), kStranger));
}

TEST(Door, SaysWhichLineOfTheConfigurationOpensIt) {
  EXPECT_NE(Door({}).refusal(from("i"), kStranger).find("allowed_users: [1001]"),
            std::string::npos);
  EXPECT_NE(Door({.control_token = kToken}).refusal(from("i"), kKnown).find(kTokenHeader),
            std::string::npos);
}

TEST(Door, RemembersWhoHasShownAToken) {
  const Door door({.daemon_token = "daemon"});
  EXPECT_FALSE(door.judge(from("i"), kKnown)->shown_token);
  EXPECT_TRUE(door.judge(from("i"), kWithToken)->shown_token);
  EXPECT_TRUE(
      door.judge(request({{kInstanceHeader, "i"}, {kTokenHeader, "daemon"}}), kKnown)->shown_token);
}

TEST(Door, LetsHostsOfOldInUnlessItMust) {
  EXPECT_TRUE(Door({}).judge(request({}), kKnown));
  EXPECT_EQ(Door({}).judge(request({}), kKnown)->instance, "");
  EXPECT_FALSE(Door({.legacy = false}).judge(request({}), kKnown));
  EXPECT_FALSE(Door({.control_token = kToken}).judge(request({}), kKnown));
  EXPECT_TRUE(Door({.control_token = kToken}).judge(request({{kTokenHeader, kToken}}), kKnown));
}

TEST(Door, TrustsRelaysOfTheInstanceThatHasSpokenOnly) {
  Door door({});
  EXPECT_FALSE(door.is_trusted(from("i"), kKnown));
  EXPECT_TRUE(door.trust("i"));
  EXPECT_TRUE(door.is_trusted(from("i"), kKnown));
  EXPECT_FALSE(door.is_trusted(from("j"), kKnown));
  EXPECT_FALSE(door.is_trusted(request({}), kKnown));
}

}  // namespace
}  // namespace caisson::api::rpc
