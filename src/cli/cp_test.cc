#include "cli/cp.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace caisson::cli {
namespace {

Place in_session(std::string session, std::string path) {
  return {.session = std::move(session), .path = std::move(path)};
}

Place ours(std::string path) {
  return {.session = std::nullopt, .path = std::move(path)};
}

TEST(Place, IsInASessionWithAColon) {
  EXPECT_EQ(parse_place("build:/tmp/x"), in_session("build", "/tmp/x"));
  EXPECT_EQ(parse_place("build:out/x"), in_session("build", "out/x"));
  EXPECT_EQ(parse_place("проект:/a b"), in_session("проект", "/a b"));
  EXPECT_EQ(parse_place("team/a:x"), in_session("team/a", "x"));
}

TEST(Place, IsTheWorkspaceWithoutAPath) {
  EXPECT_EQ(parse_place("build:"), in_session("build", "."));
}

TEST(Place, DividesAtTheAbsolutePathWhenNamesHaveColons) {
  EXPECT_EQ(parse_place("person:123:/tmp/a:b"), in_session("person:123", "/tmp/a:b"));
}

TEST(Place, IsOursWithoutAColonOrWithADotInFront) {
  for (const char* path : {"-", ".", "..", "a/b", "/a:b", "./a:b", "../a:/b"}) {
    EXPECT_EQ(parse_place(path), ours(path));
  }
}

TEST(Place, RefusesWhatNamesNothing) {
  for (const char* text : {"", ":/x", " :/x", "..:/x"}) {
    EXPECT_THROW(parse_place(text), Error) << text;
  }
}

TEST(BoxPath, IsTakenApartAtTheLastComponent) {
  EXPECT_EQ(base_name("/a/b"), "b");
  EXPECT_EQ(base_name("a//"), "a");
  EXPECT_EQ(base_name("/"), "");
  EXPECT_EQ(base_name("a/.."), "..");
  EXPECT_EQ(parent_path("/a/b/"), "/a");
  EXPECT_EQ(parent_path("/a"), "/");
  EXPECT_EQ(parent_path("a"), ".");
  EXPECT_EQ(join_path("/", "a"), "/a");
  EXPECT_EQ(join_path("a", "b"), "a/b");
}

}  // namespace
}  // namespace caisson::cli
