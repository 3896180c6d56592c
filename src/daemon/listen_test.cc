#include "daemon/listen.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/error.h"

namespace caisson::daemon {
namespace {

using net::WithoutToken;
using testing::ElementsAre;
using testing::HasSubstr;

const ListenPlaces kPlaces{.state_dir = "/state", .socket = "/run/x/caisson.sock"};

std::vector<std::string> paths(const net::ServerConfig& config) {
  std::vector<std::string> found;
  for (const net::UnixSocket& socket : config.unix_sockets) found.push_back(socket.path);
  return found;
}

TEST(Listen, LetsInWithoutATokenWhomTheKernelKnows) {
  EXPECT_EQ(server_config({}, kPlaces, "t").without_token, WithoutToken::users);
  EXPECT_EQ(server_config({.listen_host = "::1"}, kPlaces, "t").without_token, WithoutToken::users);
}

TEST(Listen, WantsTheTokenOfAllWhereOthersConnectOrTheOperatorSaysSo) {
  for (const model::DaemonConfig& daemon : {model::DaemonConfig{.listen_host = "0.0.0.0"},
                                            model::DaemonConfig{.token_required = true}}) {
    EXPECT_EQ(server_config(daemon, kPlaces, "t").without_token, WithoutToken::nobody);
  }
}

TEST(Listen, LetsEverybodyOnThisHostInOnlyWhenTold) {
  EXPECT_EQ(server_config({.token_required = false}, kPlaces, "t").without_token,
            WithoutToken::everybody);
  EXPECT_THROW(server_config({.listen_host = "0.0.0.0", .token_required = false}, kPlaces, "t"),
               Error);
}

TEST(Listen, HasASocketInItsStateAndACommonOneThatItCanDoWithout) {
  const net::ServerConfig automatic = server_config({}, kPlaces, "t");
  EXPECT_THAT(paths(automatic), ElementsAre("/state/caisson.sock", "/run/x/caisson.sock"));
  EXPECT_TRUE(automatic.unix_sockets[1].dispensable);
  EXPECT_EQ(automatic.unix_sockets[0].group, std::nullopt) << "the state is this user's alone";
  const net::ServerConfig named = server_config({.listen_socket = "/srv/s"}, kPlaces, "t");
  EXPECT_THAT(paths(named), ElementsAre("/state/caisson.sock", "/srv/s"));
  EXPECT_FALSE(named.unix_sockets[1].dispensable);
  EXPECT_THAT(paths(server_config({.listen_socket = "none"}, kPlaces, "t")),
              ElementsAre("/state/caisson.sock"));
  EXPECT_THAT(paths(server_config({}, {.state_dir = "/state"}, "t")),
              ElementsAre("/state/caisson.sock"));
}

TEST(Listen, KnowsUsersByNameAndNumber) {
  EXPECT_THAT(user_ids({"root", "1001"}), ElementsAre(0u, 1001u));
  for (const char* nobody : {"no such user", "-1", "4294967295", "99999999999"}) {
    try {
      user_ids({nobody});
      ADD_FAILURE() << nobody;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("caisson.allowed_users: there is no user"));
    }
  }
}

}  // namespace
}  // namespace caisson::daemon
