#include "backend/fake/script.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace caisson::backend::fake {
namespace {

std::string flat(const Word& word) {
  std::string text;
  for (const Piece& piece : word) text += piece.text;
  return text;
}

std::vector<std::string> words(const Statement& statement) {
  std::vector<std::string> out;
  for (const Word& word : statement.words) out.push_back(flat(word));
  return out;
}

TEST(ParseScript, SplitsCommandsAndRemembersHowTheyAreJoined) {
  const auto script = parse_script("a 1; b && c || d &\ne # the end");
  ASSERT_EQ(script.size(), 5u);
  EXPECT_EQ(words(script[0]), (std::vector<std::string>{"a", "1"}));
  EXPECT_EQ(script[1].join, Join::always);
  EXPECT_EQ(script[2].join, Join::if_succeeded);
  EXPECT_EQ(script[3].join, Join::if_failed);
  EXPECT_TRUE(script[3].background);
  EXPECT_EQ(words(script[4]), (std::vector<std::string>{"e"}));
  EXPECT_FALSE(script[4].background);
}

TEST(ParseScript, RemovesQuotesAndKeepsWhatTheyProtect) {
  const auto script = parse_script(R"(echo 'a  $b' "c \" $d" e\ f "" x'y'"z")");
  EXPECT_EQ(words(script.at(0)),
            (std::vector<std::string>{"echo", "a  $b", "c \" $d", "e f", "", "xyz"}));
  EXPECT_FALSE(script[0].words[1].back().expand);
  EXPECT_TRUE(script[0].words[2].back().expand);
}

TEST(ParseScript, ReadsRedirections) {
  const auto script = parse_script("a >f 2>&1 <g >> h");
  ASSERT_EQ(script.at(0).redirections.size(), 4u);
  const auto& redirections = script[0].redirections;
  EXPECT_EQ(redirections[0].fd, 1);
  EXPECT_EQ(flat(redirections[0].target), "f");
  EXPECT_EQ(redirections[1].fd, 2);
  EXPECT_EQ(redirections[1].kind, Redirection::Kind::duplicate);
  EXPECT_EQ(redirections[2].fd, 0);
  EXPECT_EQ(redirections[2].kind, Redirection::Kind::read);
  EXPECT_EQ(redirections[3].kind, Redirection::Kind::append);
  EXPECT_EQ(flat(redirections[3].target), "h");
}

TEST(ParseScript, RefusesWhatItDoesNotSimulate) {
  for (const char* script : {"a | b", "(a)", "echo $(a)", "echo `a`", "echo \"$(a)\"", "'open",
                             "\"open", "&& a", "a &&", "a >"}) {
    EXPECT_THROW(parse_script(script), Error) << script;
  }
}

}  // namespace
}  // namespace caisson::backend::fake
