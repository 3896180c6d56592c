#include "net/peer_user.h"

#include <grp.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>

#include "base/temporary_directory.h"
#include "net/server_for_test.h"

namespace caisson::net {
namespace {

constexpr uid_t kNobody = 65534;
constexpr gid_t kGroup = 54321;

void fill(Router& router) {
  router.add("GET", "/", [](Exchange& exchange) -> Task<void> {
    const Peer& peer = exchange.peer();
    Response response{.body = peer.uid ? std::to_string(*peer.uid) : "unknown"};
    co_await exchange.reply(std::move(response));
  });
}

std::string ask(RawClient client, std::uint16_t port, std::string_view headers = "") {
  return client.ask(str("GET / HTTP/1.1\r\nHost: 127.0.0.1:", port, "\r\n", headers, "\r\n"));
}

// What `ask` gives in a process of another user, who is in these groups.
template <typename Ask>
std::string as_user(uid_t uid, const std::vector<gid_t>& groups, Ask ask) {
  int ends[2];
  check_syscall("pipe", ::pipe(ends));
  const pid_t child = check_syscall("fork", ::fork());
  if (child == 0) {
    if (::setgroups(groups.size(), groups.data()) != 0 || ::setresgid(uid, uid, uid) != 0 ||
        ::setresuid(uid, uid, uid) != 0) {
      ::_exit(2);
    }
    std::string answer;
    try {
      answer = ask();
    } catch (const std::exception& error) {
      answer = error.what();
    }
    [[maybe_unused]] const ssize_t written = ::write(ends[1], answer.data(), answer.size());
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string answer;
  char bytes[4096];
  for (ssize_t size = 0; (size = ::read(ends[0], bytes, sizeof bytes)) > 0;) {
    answer.append(bytes, static_cast<std::size_t>(size));
  }
  ::close(ends[0]);
  int status = 0;
  check_syscall("wait", ::waitpid(child, &status, 0));
  EXPECT_EQ(status, 0);
  return answer;
}

class PeerUser : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
    std::filesystem::permissions(temporary_.path(), std::filesystem::perms(0755));
  }

  const TemporaryDirectory temporary_;
  const std::string path_ = (temporary_.path() / "run" / "api.sock").native();
};

TEST_F(PeerUser, OnLoopbackNeedsNoTokenWhenItIsOurs) {
  TestServer server(fill, {.token = std::string(32, 't')});
  const std::string answer = ask(RawClient(server.port()), server.port());
  EXPECT_EQ(status_in(answer), 200);
  EXPECT_EQ(body_in(answer), "0");
}

TEST_F(PeerUser, OnLoopbackShowsTheTokenWhenItIsAnother) {
  const std::string token(32, 't');
  TestServer server(fill, {.token = token});
  const auto stranger = [&](std::string_view headers) {
    return as_user(kNobody, {},
                   [&] { return ask(RawClient(server.port()), server.port(), headers); });
  };
  const std::string refused = stranger("");
  EXPECT_EQ(status_in(refused), 401);
  EXPECT_TRUE(contains(refused, "allowed_users: [65534]")) << refused;
  EXPECT_EQ(status_in(stranger(str("Authorization: Bearer ", token, "\r\n"))), 200);
}

TEST_F(PeerUser, OnLoopbackIsLetInWhenTheOperatorNamesIt) {
  TestServer server(fill, {.users = {kNobody}});
  const std::string answer =
      as_user(kNobody, {}, [&] { return ask(RawClient(server.port()), server.port()); });
  EXPECT_EQ(status_in(answer), 200);
  EXPECT_EQ(body_in(answer), "65534");
}

TEST_F(PeerUser, BehindAProxyShowsTheToken) {
  TestServer server(fill, {.token = std::string(32, 't')});
  for (const char* header : {"Forwarded: for=192.0.2.1", "X-Forwarded-For: 192.0.2.1", "Via: 1.1 x",
                             "X-Real-IP: 192.0.2.1"}) {
    EXPECT_EQ(status_in(ask(RawClient(server.port()), server.port(), str(header, "\r\n"))), 401)
        << header;
  }
}

TEST_F(PeerUser, ThatHasLeftIsUnknown) {
  std::atomic<int> handled = 0;
  TestServer server([&](Router& routes) {
    routes.add("GET", "/", [&](Exchange& exchange) -> Task<void> {
      ++handled;
      co_await exchange.reply({});
    });
  });
  // Sent and gone before anybody looks: nobody's socket is listed as root's.
  for (int i = 0; i < 50; ++i) {
    const std::string answer = as_user(kNobody, {}, [&] {
      RawClient client(server.port());
      client.send(str("GET / HTTP/1.1\r\nHost: 127.0.0.1:", server.port(), "\r\n\r\n"));
      return std::string("sent");
    });
    EXPECT_EQ(answer, "sent");
  }
  EXPECT_TRUE(eventually([&] { return server.counts().connections == 0; }));
  EXPECT_TRUE(eventually([&] { return server.counts().accepted == 50; }));
  EXPECT_EQ(handled, 0);
}

TEST_F(PeerUser, OfAUnixSocketIsLetInWhenItIsOfTheGroup) {
  TestServer server(fill, {.unix_sockets = {{.path = path_, .group = kGroup}}});
  const auto answer = [&](const std::vector<gid_t>& groups) {
    return as_user(kNobody, groups, [&] { return ask(RawClient(path_), 0); });
  };
  EXPECT_EQ(status_in(answer({kGroup})), 200);
  EXPECT_EQ(status_in(answer({1, 2, kGroup, 3})), 200);
  EXPECT_TRUE(contains(answer({}), "Permission denied"));
}

}  // namespace
}  // namespace caisson::net
