#include "net/target.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace caisson::net {
namespace {

using Path = std::vector<std::string>;
using Query = std::vector<std::pair<std::string, std::string>>;

Path path_of(std::string_view target) {
  return parse_target("GET", target).path;
}

TEST(Target, IsUtf8WhenItIsDecoded) {
  EXPECT_EQ(path_of("/%C3%A9%e2%82%ac"), Path{"é€"});
  for (const char* target : {"/%ff", "/a%ffb", "/%c3", "/%c3/%a9", "/%c0%af", "/%ed%a0%80",
                             "/%f4%90%80%80", "/x?%ff=1", "/x?a=%ff", "/x?a=%c3&b=%a9"}) {
    EXPECT_THROW(parse_target("GET", target), Error) << target;
  }
}

TEST(Target, DividesThePathBeforeItDecodes) {
  EXPECT_EQ(path_of("/"), Path{});
  EXPECT_EQ(path_of("/v1/a%2Fb/exec"), (Path{"v1", "a/b", "exec"}));
  EXPECT_EQ(path_of("/caf%c3%a9/%5C"), (Path{"caf\xc3\xa9", "\\"}));
  EXPECT_EQ(path_of("/a+b"), (Path{"a+b"}));
  EXPECT_EQ(path_of("/a/"), (Path{"a", ""}));
  EXPECT_EQ(path_of("/..."), (Path{"..."}));
}

TEST(Target, DecodesTheQueryIntoPairs) {
  const Target target = parse_target("GET", "/x?a=1&b=%26+%3D&&c&d=e=f");
  EXPECT_EQ(target.path, (Path{"x"}));
  EXPECT_EQ(target.query, (Query{{"a", "1"}, {"b", "& ="}, {"c", ""}, {"d", "e=f"}}));
}

TEST(Target, TakesTheAuthorityOfTheAbsoluteForm) {
  const Target target = parse_target("GET", "HTTP://u@Host:1/a?b=c");
  EXPECT_EQ(target.authority, "u@Host:1");
  EXPECT_EQ(target.path, (Path{"a"}));
  EXPECT_EQ(target.query, (Query{{"b", "c"}}));
  EXPECT_EQ(parse_target("GET", "http://host").path, Path{});
  EXPECT_EQ(parse_target("GET", "http://host?x=/..").path, Path{});
}

TEST(Target, RefusesWhatCouldBeReadInTwoWays) {
  for (const char* target :
       {"/..",     "/a/../b",     "/.",          "/%2e%2e/b",    "/.%2E",     "/%2e",
        "/a%00b",  "/a\\b",       "/%",          "/%4",          "/%zz",      "/a//b",
        "//",      "//host/path", "/a#b",        "/caf\xc3\xa9", "a/b",       "",
        "?x",      "*",           "https://h/a", "http://",      "http:///a", "http://h\\@evil/a",
        "/a?b=%0", "/a?b=%00",    "ftp://h/"}) {
    EXPECT_THROW(parse_target("GET", target), Error) << target;
  }
}

TEST(Target, LeavesTheOtherFormsToTheRouter) {
  EXPECT_EQ(parse_target("OPTIONS", "*").path, Path{});
  EXPECT_EQ(parse_target("CONNECT", "evil.example:443").path, Path{});
}

TEST(Target, EncodesASegmentSoThatItDecodesToItself) {
  const std::string segment = "a/b c%\\?#\xc3\xa9~-._";
  EXPECT_EQ(encode_segment(segment), "a%2Fb%20c%25%5C%3F%23%C3%A9~-._");
  EXPECT_EQ(path_of("/" + encode_segment(segment)), Path{segment});
}

}  // namespace
}  // namespace caisson::net
