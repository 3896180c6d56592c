#include "net/router.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "net/target.h"

namespace caisson::net {
namespace {

Handler nothing() {
  return [](Exchange&) -> Task<void> { co_return; };
}

Request request_for(std::string method, std::string_view target) {
  Request request;
  request.path = parse_target(method, target).path;
  request.method = std::move(method);
  return request;
}

class RouterTest : public testing::Test {
 protected:
  RouterTest() {
    for (const char* pattern : {"/", "/v1/sessions", "/v1/sessions/{id}", "/v1/sessions/all",
                                "/v1/sessions/{id}/processes/{process}"}) {
      router_.add("GET", pattern, nothing());
    }
    router_.add("POST", "/v1/sessions", nothing());
    router_.add("DELETE", "/v1/sessions/{id}", nothing());
    router_.add("GET", "/v1/sessions/all/of/them", nothing());
  }
  std::string pattern_for(std::string method, std::string_view target) {
    const auto match = router_.find(request_for(std::move(method), target));
    return match.route == nullptr ? "allow " + match.allow : match.route->pattern;
  }
  Router router_;
};

TEST_F(RouterTest, FindsTheRouteAndItsParameters) {
  EXPECT_EQ(pattern_for("GET", "/"), "/");
  EXPECT_EQ(pattern_for("GET", "/v1/sessions"), "/v1/sessions");
  const auto match = router_.find(request_for("GET", "/v1/sessions/a%2Fb/processes/p"));
  ASSERT_NE(match.route, nullptr);
  ASSERT_EQ(match.params.size(), 2u);
  EXPECT_EQ(match.params[0].first, "id");
  EXPECT_EQ(match.params[0].second, "a/b");
  EXPECT_EQ(match.params[1].second, "p");
}

TEST_F(RouterTest, PrefersALiteralSegmentAndGoesBackWhenItLeadsNowhere) {
  EXPECT_EQ(pattern_for("GET", "/v1/sessions/all"), "/v1/sessions/all");
  EXPECT_EQ(pattern_for("GET", "/v1/sessions/all/processes/p"),
            "/v1/sessions/{id}/processes/{process}");
}

TEST_F(RouterTest, TellsAWrongMethodFromAWrongPath) {
  EXPECT_EQ(pattern_for("PUT", "/v1/sessions"), "allow GET, HEAD, POST");
  EXPECT_EQ(pattern_for("PUT", "/v1/sessions/x"), "allow DELETE, GET, HEAD");
  for (const char* target : {"/v1", "/v1/sessions/", "/v1/sessions/x/", "/v1/sessions/x/processes",
                             "/v2", "/V1/sessions"}) {
    EXPECT_EQ(pattern_for("GET", target), "allow ") << target;
  }
}

TEST_F(RouterTest, AnswersHeadWithTheRouteOfGet) {
  EXPECT_EQ(pattern_for("HEAD", "/v1/sessions"), "/v1/sessions");
  EXPECT_EQ(pattern_for("get", "/v1/sessions"), "allow GET, HEAD, POST");
}

TEST_F(RouterTest, ListsItsRoutesInOrder) {
  ASSERT_EQ(router_.routes().size(), 8u);
  EXPECT_EQ(router_.routes()[5]->method, "POST");
}

TEST_F(RouterTest, RefusesTheSameRouteTwice) {
  EXPECT_THROW(router_.add("GET", "/v1/sessions", nothing()), Error);
  EXPECT_THROW(router_.add("GET", "/v1/sessions/{other}", nothing()), Error);
}

}  // namespace
}  // namespace caisson::net
