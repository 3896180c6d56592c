#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>
#include <vector>

#include "base/temporary_directory.h"
#include "net/listener.h"
#include "net/server_for_test.h"

namespace caisson::net {
namespace {

void fill(Router& router) {
  router.add("GET", "/peer", [](Exchange& exchange) -> Task<void> {
    Response response{.body = exchange.peer().name};
    co_await exchange.reply(std::move(response));
  });
}

class UnixSocketTest : public testing::Test {
 protected:
  UnixSocketTest() { path_ = (directory_ / "run" / "api.sock").native(); }

  static unsigned mode_of(const std::filesystem::path& path) {
    struct stat status {};
    check_syscall(path.native(), ::lstat(path.c_str(), &status));
    return status.st_mode & 07777;
  }

  const TemporaryDirectory temporary_;
  const std::filesystem::path directory_ = temporary_.path();
  std::string path_;
};

TEST_F(UnixSocketTest, ServesItsOwnUserWithoutTokenAndHost) {
  TestServer server(
      fill, {.unix_sockets = {{.path = path_}}, .token = "0123456789abcdef0123456789abcdef"});
  EXPECT_EQ(mode_of(path_), 0600u);
  EXPECT_EQ(mode_of(directory_ / "run"), 0700u);
  RawClient client(path_);
  EXPECT_EQ(body_in(client.ask("GET /peer HTTP/1.1\r\nHost: anything\r\n\r\n")), "unix");
  EXPECT_EQ(
      status_in(client.ask("GET /peer HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer y\r\n\r\n")),
      401);
}

TEST_F(UnixSocketTest, IsGoneWhenTheServerIs) {
  { TestServer server(fill, {.unix_sockets = {{.path = path_}}}); }
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(UnixSocketTest, ReplacesASocketThatNobodyListensOn) {
  std::filesystem::create_directory(directory_ / "run");
  std::filesystem::permissions(directory_ / "run", std::filesystem::perms::owner_all);
  {
    const UniqueFd left(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{.sun_family = AF_UNIX};
    std::memcpy(address.sun_path, path_.c_str(), path_.size() + 1);
    check_syscall("bind",
                  ::bind(left.get(), reinterpret_cast<sockaddr*>(&address), sizeof address));
  }
  ASSERT_TRUE(std::filesystem::exists(path_));
  TestServer server(fill, {.unix_sockets = {{.path = path_}}});
  RawClient client(path_);
  EXPECT_EQ(status_in(client.ask("GET /peer HTTP/1.1\r\nHost: x\r\n\r\n")), 200);
}

TEST_F(UnixSocketTest, LeavesALiveListenerAlone) {
  TestServer server(fill, {.unix_sockets = {{.path = path_}}});
  EXPECT_THROW(Listener::unix_socket(path_), Error);
  RawClient client(path_);
  EXPECT_EQ(status_in(client.ask("GET /peer HTTP/1.1\r\nHost: x\r\n\r\n")), 200);
}

TEST_F(UnixSocketTest, RefusesADirectoryThatOthersMayWriteTo) {
  std::filesystem::create_directory(directory_ / "run");
  for (const unsigned mode : {0770u, 0702u, 01777u}) {
    std::filesystem::permissions(directory_ / "run", std::filesystem::perms(mode));
    EXPECT_THROW(Listener::unix_socket(path_), Error) << mode;
  }
}

TEST_F(UnixSocketTest, IsTheGroupsInADirectoryThatTheGroupMayEnter) {
  const gid_t group = ::getegid();
  const Listener listener = Listener::unix_socket(path_, group);
  EXPECT_EQ(mode_of(path_), 0660u);
  EXPECT_EQ(mode_of(directory_ / "run"), 0710u);
}

TEST_F(UnixSocketTest, IsDoneWithoutWhereALivingListenerHasIt) {
  TestServer first(fill, {.unix_sockets = {{.path = path_}}});
  const std::string other = (directory_ / "run" / "other.sock").native();
  TestServer second(fill,
                    {.unix_sockets = {{.path = path_, .dispensable = true}, {.path = other}}});
  {
    TestServer third(
        fill, {.unix_sockets = {{.path = path_, .dispensable = true}, {.path = other + "2"}}});
  }
  for (const std::string& path : {path_, other}) {
    RawClient client(path);
    EXPECT_EQ(status_in(client.ask("GET /peer HTTP/1.1\r\nHost: x\r\n\r\n")), 200) << path;
  }
}

// Whoever finds a stale socket removes it, and must not remove the one that has just replaced it.
TEST_F(UnixSocketTest, GoesToOneOfManyThatComeAtOnce) {
  constexpr int kComers = 8;
  for (int round = 0; round < 20; ++round) {
    {
      std::optional<Listener> left = Listener::unix_socket(path_);
      ::rename(path_.c_str(), (path_ + ".left").c_str());
      left.reset();
      ::rename((path_ + ".left").c_str(), path_.c_str());
    }
    ASSERT_TRUE(std::filesystem::exists(path_)) << "a stale one";
    std::vector<std::optional<Listener>> listeners(kComers);
    std::vector<std::thread> comers;
    for (auto& listener : listeners) {
      comers.emplace_back([&] {
        try {
          listener.emplace(Listener::unix_socket(path_));
        } catch (const Error&) {
          listener.reset();  // somebody else has it
        }
      });
    }
    for (std::thread& comer : comers) comer.join();
    EXPECT_EQ(std::count_if(listeners.begin(), listeners.end(),
                            [](const auto& one) { return one.has_value(); }),
              1);
  }
}

TEST_F(UnixSocketTest, RefusesToReplaceAFile) {
  std::filesystem::create_directory(directory_ / "run");
  std::filesystem::permissions(directory_ / "run", std::filesystem::perms::owner_all);
  std::ofstream(path_) << "precious";
  EXPECT_THROW(Listener::unix_socket(path_), Error);
  EXPECT_TRUE(std::filesystem::exists(path_));
}

TEST_F(UnixSocketTest, RefusesAPathThatIsTooLong) {
  EXPECT_THROW(Listener::unix_socket("/tmp/" + std::string(200, 'x') + "/s"), Error);
}

TEST_F(UnixSocketTest, WantsTheTokenOfAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  TestServer server(fill, {.unix_sockets = {{.path = path_}}});
  // The modes alone would keep the other user out; the check must hold without them.
  std::filesystem::permissions(directory_, std::filesystem::perms(0755));
  std::filesystem::permissions(directory_ / "run", std::filesystem::perms(0755));
  std::filesystem::permissions(path_, std::filesystem::perms(0666));
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (::setresuid(65534, 65534, 65534) != 0) ::_exit(2);
    RawClient client(path_);
    client.send("GET /peer HTTP/1.1\r\nHost: x\r\n\r\n");
    ::_exit(status_in(client.read_answer()) == 401 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace caisson::net
