#include "cli/daemon_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/json/parse.hpp>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>

#include "base/file.h"
#include "base/temporary_directory.h"
#include "base/unique_fd.h"

namespace caisson::cli {
namespace {

using testing::HasSubstr;

constexpr const char* kToken = "0123456789abcdef0123456789abcdef";
constexpr const char* kPort = "http://127.0.0.1:1";

// A state directory with a token in it.
class Daemon : public testing::Test {
 protected:
  Daemon() {
    replace_file(state_ / "token", kToken, 0600);
    variables_["CAISSON_STATE"] = state_.native();
  }

  DaemonPlace find(const DaemonOptions& options = {}) const {
    const Environment environment = [this](const std::string& name) -> std::optional<std::string> {
      const auto found = variables_.find(name);
      if (found == variables_.end()) return std::nullopt;
      return found->second;
    };
    return find_daemon(options, environment, true,
                       [this](const std::string& path) { return listening_.contains(path); });
  }

  const TemporaryDirectory temporary_;
  const std::filesystem::path state_ = temporary_.path();
  std::map<std::string, std::string> variables_;
  std::set<std::string> listening_;
};

TEST_F(Daemon, IsFoundByOptionThenVariableThenStateDirectory) {
  const std::string socket = "unix:" + (state_ / "caisson.sock").native();
  EXPECT_EQ(find().address, socket) << "whether or not it runs: no other one is meant";
  EXPECT_EQ(find({.state = "/srv/x"}).address, "unix:/srv/x/caisson.sock");
  variables_["CAISSON_URL"] = "unix:/run/x.sock";
  EXPECT_EQ(find().address, "unix:/run/x.sock");
  EXPECT_EQ(find({.url = "http://localhost:1"}).address, "http://localhost:1");
}

TEST_F(Daemon, IsTheFirstThatListensWhenNothingIsSaid) {
  variables_.clear();
  EXPECT_EQ(find().address, "http://127.0.0.1:5410");
  listening_.insert(common_socket().native());
  EXPECT_EQ(find().address, "unix:" + common_socket().native());
  listening_.insert("/var/lib/caisson/caisson.sock");
  EXPECT_EQ(find().address, "unix:/var/lib/caisson/caisson.sock");
}

TEST_F(Daemon, IsAtThePortWhereItsSocketsPathIsTooLong) {
  EXPECT_EQ(find({.state = "/" + std::string(200, 'x')}).address, "http://127.0.0.1:5410");
}

TEST_F(Daemon, OfAnotherUserIsNotTakenForOurs) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const std::string path = (state_ / "s").native();
  ASSERT_EQ(::chmod(state_.c_str(), 0777), 0);
  EXPECT_FALSE(answers_at(path));
  ASSERT_EQ(::seteuid(65534), 0);
  const UniqueFd theirs(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{.sun_family = AF_UNIX};
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const auto* raw = reinterpret_cast<const sockaddr*>(&address);
  const bool bound = ::bind(theirs.get(), raw, sizeof address) == 0;
  const bool listens = ::listen(theirs.get(), 5) == 0;
  const bool answers_them = answers_at(path);
  ASSERT_EQ(::seteuid(0), 0);
  EXPECT_TRUE(bound && listens && answers_them);
  EXPECT_FALSE(answers_at(path));
}

TEST_F(Daemon, IsRefusedAtAnAddressThatIsNone) {
  const auto sentence = [&](const DaemonOptions& options) -> std::string {
    try {
      find(options);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(sentence({.url = "localhost"}), HasSubstr("--url: \"localhost\" is no address"));
  variables_["CAISSON_URL"] = "https://x";
  EXPECT_THAT(sentence({}), HasSubstr("CAISSON_URL: \"https://x\" is no address"));
}

TEST_F(Daemon, IsShownTheTokenOfItsStateDirectoryAtAPortThatIsSaid) {
  EXPECT_EQ(find({.url = kPort}).token, kToken);
  EXPECT_EQ(find().token, "") << "a socket knows its users";
  EXPECT_EQ(find({.url = "unix:/run/x.sock"}).token, "");
  variables_["CAISSON_TOKEN"] = "other";
  EXPECT_EQ(find().token, "other");
  EXPECT_EQ(find({.url = kPort}).token, "other");
}

TEST_F(Daemon, AtTheUsualPortCouldBeAnybodyAndIsShownNoToken) {
  const DaemonPlace place = find({.state = "/" + std::string(200, 'x')});
  EXPECT_EQ(place.address, "http://127.0.0.1:5410");
  EXPECT_EQ(place.token, "");
}

TEST_F(Daemon, OnAnotherHostIsNotShownTheTokenOfThisOne) {
  EXPECT_EQ(find({.url = "http://192.0.2.1:5410"}).token, "");
  variables_["CAISSON_TOKEN"] = "theirs";
  EXPECT_EQ(find({.url = "http://192.0.2.1:5410"}).token, "theirs");
}

TEST_F(Daemon, MayAskForNoTokenAtAll) {
  ASSERT_EQ(::chmod((state_ / "token").c_str(), 0644), 0);
  const DaemonPlace place = find({.url = kPort});
  EXPECT_EQ(place.token, "");
  EXPECT_THAT(place.token_note, HasSubstr("can be read or written by others"));
  EXPECT_THAT(find({.url = kPort, .state = "/nonexistent"}).token_note,
              HasSubstr("there is none in"));
}

TEST_F(Daemon, IsNeverToldOfInTheNoteAboutItsToken) {
  EXPECT_EQ(find({.url = kPort}).token_note.find(kToken), std::string::npos);
}

TEST(SessionName, IsWhatTheDaemonMakesOfIt) {
  EXPECT_EQ(session_name(" a b "), "a b");
  EXPECT_EQ(session_name("..."), "...");
  for (const char* name : {"", "  ", ".", "..", "\xff"}) {
    EXPECT_THROW(session_name(name), Error) << name;
  }
}

TEST(SessionTarget, EncodesWhateverIsInANameOrAPath) {
  EXPECT_EQ(session_target("a/b c?"), "/v1/sessions/a%2Fb%20c%3F");
  EXPECT_EQ(session_target("ü", "/exec/stream"), "/v1/sessions/%C3%BC/exec/stream");
  EXPECT_EQ(path_target("a", "/files", "/x&y=+#\n"),
            "/v1/sessions/a/files?path=%2Fx%26y%3D%2B%23%0A");
}

TEST(DaemonError, KeepsItsCodeAndSentence) {
  const auto error =
      find_error(boost::json::parse(R"({"error": {"code": "session_conflict", "message": "so"}})"));
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->code(), ErrorCode::session_conflict);
  EXPECT_STREQ(error->what(), "so");
}

TEST(DaemonError, OfAnUnknownKindIsAnInternalOne) {
  EXPECT_EQ(error_code_of("no_such_code"), ErrorCode::internal_error);
  EXPECT_EQ(error_code_of("internal_error"), ErrorCode::internal_error);
  EXPECT_EQ(error_code_of("validation_error"), ErrorCode::validation_error);
}

TEST(DaemonError, IsNotSeenInOtherAnswers) {
  for (const char* text : {"[]", "{}", R"({"error": "x"})", R"({"error": {"code": 1}})"}) {
    EXPECT_FALSE(find_error(boost::json::parse(text)).has_value()) << text;
  }
}

}  // namespace
}  // namespace caisson::cli
