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

TEST(Door, LetsInWhoSaysWhichInstanceItIs) {
  const Door door({});
  const auto visitor = door.judge(request({{"x-langbot-instance-id", "  i-1.a:b_c  "}}));
  ASSERT_TRUE(visitor);
  EXPECT_EQ(visitor->instance, "i-1.a:b_c");
  for (const std::string& name : {std::string(""), std::string("-a"), std::string("a b"),
                                  std::string("a/b"), std::string(129, 'a')}) {
    EXPECT_FALSE(door.judge(from(name))) << name;
  }
  EXPECT_TRUE(door.judge(from(std::string(128, 'a'))));
}

TEST(Door, TrustsTheFirstThatSpeaksAndNotWhoOnlyAsks) {
  Door door({});
  EXPECT_TRUE(door.judge(from("first")));
  EXPECT_EQ(door.trusted_instance(), "");
  const Door::Presence here(door, "second");
  EXPECT_TRUE(door.trust("second"));
  EXPECT_FALSE(door.judge(from("first")));
  EXPECT_FALSE(door.trust("first"));
  EXPECT_TRUE(door.judge(from("second")));
}

TEST(Door, LetsAnotherInstanceFollowOneThatHasGone) {
  Door door({});
  {
    const Door::Presence here(door, "first");
    EXPECT_TRUE(door.trust("first"));
    EXPECT_FALSE(door.judge(from("second")));
  }
  EXPECT_TRUE(door.judge(from("second")));
  EXPECT_TRUE(door.trust("second"));
  EXPECT_EQ(door.trusted_instance(), "second");
}

TEST(Door, NeverChangesAnInstanceThatWasConfiguredOrHasAToken) {
  Door configured({.trusted_instance = "only"});
  EXPECT_FALSE(configured.judge(from("other")));
  EXPECT_FALSE(configured.judge(request({})));
  EXPECT_TRUE(configured.judge(from("only")));
  Door with_token({.control_token = kToken});
  EXPECT_TRUE(with_token.trust("first"));
  EXPECT_FALSE(with_token.trust("second"));
}

TEST(Door, AsksForTheTokenWhereThereIsOne) {
  const Door door({.control_token = kToken});
  EXPECT_FALSE(door.judge(from("i")));
  EXPECT_FALSE(door.judge(request({{kInstanceHeader, "i"}, {kTokenHeader, kToken + "t"}})));
  EXPECT_TRUE(door.judge(request({{kInstanceHeader, "i"}, {kTokenHeader, " " + kToken}})));
  const Door open({});
  EXPECT_TRUE(open.judge(request({{kInstanceHeader, "i"}, {kTokenHeader, "whatever"}})));
}

TEST(Door, TakesTheDaemonsOwnTokenAsWell) {
  const Door door({.daemon_token = "daemon", .token_required = true});
  EXPECT_FALSE(door.judge(from("i")));
  EXPECT_TRUE(door.judge(request({{kInstanceHeader, "i"}, {kTokenHeader, "daemon"}})));
  EXPECT_TRUE(door.judge(request({{kInstanceHeader, "i"}, {"Authorization", "Bearer daemon"}})));
}

TEST(Door, LetsHostsOfOldInUnlessItMust) {
  EXPECT_TRUE(Door({}).judge(request({})));
  EXPECT_EQ(Door({}).judge(request({}))->instance, "");
  EXPECT_FALSE(Door({.legacy = false}).judge(request({})));
  EXPECT_FALSE(Door({.control_token = kToken}).judge(request({})));
  EXPECT_TRUE(Door({.control_token = kToken}).judge(request({{kTokenHeader, kToken}})));
}

TEST(Door, TrustsRelaysOfTheInstanceThatHasSpokenOnly) {
  Door door({});
  EXPECT_FALSE(door.is_trusted(from("i")));
  EXPECT_TRUE(door.trust("i"));
  EXPECT_TRUE(door.is_trusted(from("i")));
  EXPECT_FALSE(door.is_trusted(from("j")));
  EXPECT_FALSE(door.is_trusted(request({})));
}

}  // namespace
}  // namespace caisson::api::rpc
