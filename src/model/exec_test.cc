#include "model/exec.h"

#include <gmock/gmock.h>

#include <string>

#include "model/refusal_for_test.h"

namespace caisson::model {
namespace {

using testing::HasSubstr;

ExecOptions read(std::string_view text) {
  return read_exec_options(parse_json(text));
}

TEST(ExecOptions, KeepACommandWithoutItsCallerOnlyWhenSomebodyCanAskForIt) {
  EXPECT_FALSE(read("{}").kept_without_caller());
  EXPECT_TRUE(read(R"({"on_disconnect": "keep"})").kept_without_caller());
  EXPECT_TRUE(read(R"({"request_id": "k"})").kept_without_caller());
  EXPECT_FALSE(read(R"({"request_id": "k", "on_disconnect": "cancel"})").kept_without_caller());
}

TEST(RequestId, IsPrintableAsciiOfBoundedLength) {
  for (const std::string& id : {std::string("a"), std::string(200, 'x'), std::string(" ~!/%\"")}) {
    EXPECT_NO_THROW(check_request_id(id, "id")) << id;
  }
  for (const std::string& id : {std::string(), std::string(201, 'x'), std::string("a\nb"),
                                std::string("\x7f"), std::string("\xc3\xa4")}) {
    EXPECT_EQ(refusal_of([&] { check_request_id(id, "id"); }),
              "id: must be 1 to 200 printable ASCII characters");
  }
  for (const char* id : {"stream", ".", ".."}) {
    EXPECT_THAT(refusal_of([&] { check_request_id(id, "id"); }),
                HasSubstr("could not be asked for"));
  }
}

TEST(RequestId, IsTextInTheBody) {
  EXPECT_EQ(read(R"({"request_id": "k"})").request_id, "k");
  EXPECT_EQ(read("{}").request_id, "");
  for (const char* text : {R"({"request_id": 3})", R"({"request_id": null})",
                           R"({"request_id": ""})", R"({"request_id": ["k"]})"}) {
    EXPECT_THAT(refusal_of([&] { read(text); }), HasSubstr("request_id: must be")) << text;
  }
}

}  // namespace
}  // namespace caisson::model
