#include <gtest/gtest.h>

#include <exception>
#include <stdexcept>

#include "base/error.h"
#include "net/error_status.h"
#include "net/response_head.h"

namespace caisson::net {
namespace {

TEST(ErrorStatus, GivesAnErrorItsStatusAndItsJson) {
  const Response response =
      error_response(Error(ErrorCode::session_conflict, "a \"quoted\"\n\\ \xff name"));
  EXPECT_EQ(response.status, 409);
  EXPECT_EQ(response.body,
            "{\"error\":{\"code\":\"session_conflict\",\"message\":"
            "\"a \\\"quoted\\\"\\u000a\\\\ \xef\xbf\xbd name\"}}");
  EXPECT_EQ(status_of(ErrorCode::payload_too_large), 413);
  EXPECT_EQ(status_of(ErrorCode::storage_full), 507);
}

TEST(ErrorStatus, TellsNothingOfAForeignException) {
  const Response response =
      failure_response(std::make_exception_ptr(std::runtime_error("secret")), Request{});
  EXPECT_EQ(response.status, 500);
  EXPECT_EQ(response.body.find("secret"), std::string::npos);
  EXPECT_NE(response.body.find("internal_error"), std::string::npos);
}

TEST(ResponseHead, PutsTheProtectiveHeadersOnEveryAnswer) {
  const std::vector<Header> none;
  std::string json;
  append_head(json, {.content_type = "application/json", .headers = none});
  EXPECT_NE(json.find("\r\nCache-Control: no-store\r\n"), std::string::npos);
  EXPECT_NE(json.find("\r\nX-Content-Type-Options: nosniff\r\n"), std::string::npos);
  EXPECT_NE(
      json.find("\r\nContent-Security-Policy: default-src 'none'; frame-ancestors 'none'\r\n"),
      std::string::npos);
  EXPECT_EQ(json.find("\r\nServer"), std::string::npos);
  std::string html;
  append_head(html, {.content_type = "text/html; charset=utf-8", .headers = none});
  EXPECT_NE(html.find("frame-ancestors 'none'"), std::string::npos);
  EXPECT_NE(html.find("Referrer-Policy: no-referrer"), std::string::npos);
  EXPECT_EQ(html.find("unsafe"), std::string::npos);
}

TEST(ResponseHead, RefusesAHeaderThatWouldEndItsLine) {
  std::string out;
  const std::vector<Header> split = {{"Location", "x\r\nSet-Cookie: a=b"}};
  EXPECT_THROW(append_head(out, {.headers = split}), Error);
}

}  // namespace
}  // namespace caisson::net
