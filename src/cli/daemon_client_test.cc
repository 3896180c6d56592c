#include "cli/daemon_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <boost/json/parse.hpp>
#include <filesystem>
#include <map>

#include "base/file.h"
#include "base/temporary_directory.h"

namespace caisson::cli {
namespace {

using testing::HasSubstr;

constexpr const char* kToken = "0123456789abcdef0123456789abcdef";

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
    return find_daemon(options, environment, true);
  }

  const TemporaryDirectory temporary_;
  const std::filesystem::path state_ = temporary_.path();
  std::map<std::string, std::string> variables_;
};

TEST_F(Daemon, IsFoundByOptionThenVariableThenDefault) {
  EXPECT_EQ(find().address, "http://127.0.0.1:5410");
  variables_["CAISSON_URL"] = "unix:/run/x.sock";
  EXPECT_EQ(find().address, "unix:/run/x.sock");
  EXPECT_EQ(find({.url = "http://localhost:1"}).address, "http://localhost:1");
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

TEST_F(Daemon, IsShownTheTokenOfItsStateDirectory) {
  EXPECT_EQ(find().token, kToken);
  EXPECT_EQ(find({.url = "unix:/run/x.sock"}).token, kToken);
  variables_["CAISSON_TOKEN"] = "other";
  EXPECT_EQ(find().token, "other");
}

TEST_F(Daemon, OnAnotherHostIsNotShownTheTokenOfThisOne) {
  EXPECT_EQ(find({.url = "http://192.0.2.1:5410"}).token, "");
  variables_["CAISSON_TOKEN"] = "theirs";
  EXPECT_EQ(find({.url = "http://192.0.2.1:5410"}).token, "theirs");
}

TEST_F(Daemon, MayAskForNoTokenAtAll) {
  ASSERT_EQ(::chmod((state_ / "token").c_str(), 0644), 0);
  const DaemonPlace place = find();
  EXPECT_EQ(place.token, "");
  EXPECT_THAT(place.token_note, HasSubstr("can be read or written by others"));
  EXPECT_THAT(find({.state = "/nonexistent"}).token_note, HasSubstr("there is none in"));
}

TEST_F(Daemon, IsNeverToldOfInTheNoteAboutItsToken) {
  EXPECT_EQ(find().token_note.find(kToken), std::string::npos);
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
