#include "api/rpc/box_request.h"

#include <gtest/gtest.h>

#include "model/refusal_for_test.h"

namespace caisson::api::rpc {
namespace {

HostRequest read(const std::string& fields, bool of_tenant = false) {
  const boost::json::value value =
      model::parse_json("{\"session_id\": \"s1\"" + (fields.empty() ? "" : ", " + fields) + "}");
  return read_host_request(service::Policy({}), value.as_object(), of_tenant);
}

std::string refusal(const std::string& fields, bool of_tenant = false) {
  return model::refusal_of([&] { read(fields, of_tenant); });
}

TEST(HostRequest, TakesABlankSkillNameAsNone) {
  EXPECT_EQ(read(R"("skill_name": "  ")").skill_name, std::nullopt);
  EXPECT_EQ(read(R"("skill_name": null)").skill_name, std::nullopt);
  const std::string longest(64, 'a');
  EXPECT_EQ(read("\"skill_name\": \"" + longest + "\"").skill_name, longest);
  EXPECT_NE(refusal("\"skill_name\": \"" + longest + "a\""), "");
  EXPECT_EQ(refusal(R"("skill_name": 5)"), "skill_name: must be a string");
  EXPECT_EQ(refusal(R"("skill_name": "a b")"),
            "skill_name can only contain up to 64 letters, numbers, hyphens and underscores");
}

TEST(HostRequest, TakesASkillNameInAnyScript) {
  EXPECT_EQ(read("\"skill_name\": \" \u7f51\u9875-1 \"").skill_name, "\u7f51\u9875-1");
  EXPECT_NE(refusal("\"skill_name\": \"\u3002\""), "");
  EXPECT_NE(refusal("\"skill_name\": \"-_\""), "");
}

TEST(HostRequest, ThatNamesASkillHasABoxThatFollows) {
  EXPECT_EQ(read("").asked.mounting, model::Mounting::unsaid);
  EXPECT_EQ(read(R"("extra_mounts": [])").asked.mounting, model::Mounting::fixed);
  EXPECT_EQ(read(R"("extra_mounts": [], "skill_name": null)").asked.mounting,
            model::Mounting::follows);
}

TEST(HostRequest, OfATenantSince07HasNoUnknownFields) {
  EXPECT_EQ(refusal(R"("later": 1)"), "");
  EXPECT_EQ(refusal(R"("later": 1)", true), "later: unknown field");
  EXPECT_EQ(refusal(R"("later": 1, "skill_name": null)", true), "");
}

}  // namespace
}  // namespace caisson::api::rpc
