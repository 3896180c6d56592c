#include "service/policy.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "model/refusal_for_test.h"

namespace caisson::service {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

boost::json::object object(const char* text) {
  return model::parse_json(text).as_object();
}

model::BoxConfig config(const char* local) {
  return model::read_box_config(boost::json::object{{"local", model::parse_json(local)}}).config;
}

TEST(Policy, GivesWhoAsksForNothingTheDefaults) {
  const model::BuiltRequest built = Policy({}).apply({}, object(R"({"session_id": "s"})"));
  EXPECT_EQ(built.request, model::BoxRequest{.session_id = "s"});
  EXPECT_THAT(built.overridden, IsEmpty());
}

TEST(Policy, PutsTheOperatorsLocksOverWhatIsAskedFor) {
  const Policy policy(config(R"({"profile": "offline_readonly"})"));
  const model::BuiltRequest built = policy.apply({}, object(R"({"session_id": "s", "network": "on",
    "host_path": "/srv", "memory_mb": 64, "timeout_sec": 999})"));
  EXPECT_EQ(built.request.box.network, model::NetworkMode::off);
  EXPECT_EQ(built.request.box.host_path_mode, model::MountMode::ro);
  EXPECT_EQ(built.request.box.memory_mb, 64);
  EXPECT_EQ(built.request.box.pids_limit, 64);
  EXPECT_EQ(built.request.command.timeout_sec, 60);
  EXPECT_THAT(built.overridden, ElementsAre("network", "timeout_sec"));
}

TEST(Policy, HasAnImageAndAQuotaForWhoNamesNone) {
  const Policy policy(config(R"({"image": "debian", "workspace_quota_mb": 7})"));
  const model::BoxSettings given = policy.apply({}, object(R"({"session_id": "s"})")).request.box;
  EXPECT_EQ(given.image, "debian");
  EXPECT_EQ(given.workspace_quota_mb, 7);
  const model::BoxSettings own =
      policy.apply({}, object(R"({"session_id": "s", "image": "x", "workspace_quota_mb": 0})"))
          .request.box;
  EXPECT_EQ(own.image, "x");
  EXPECT_EQ(own.workspace_quota_mb, 0);
}

TEST(Policy, LimitsTimeWhereSomebodyChoseAProfile) {
  const auto time = [](const Policy& policy, const Caller& caller) {
    return policy.apply(caller, object(R"({"session_id": "s", "timeout_sec": 9999})"))
        .request.command.timeout_sec;
  };
  EXPECT_EQ(time(Policy({}), {}), 9999);
  EXPECT_EQ(time(Policy({}), {.profile = "default"}), 120);
  EXPECT_EQ(time(Policy(config(R"({"profile": "network_extended"})")), {}), 300);
}

TEST(Policy, RefusesEverythingWhereThereAreToBeNoBoxes) {
  model::BoxConfig off;
  off.enabled = false;
  try {
    Policy(off).apply({}, object(R"({"session_id": "s"})"));
    FAIL() << "nothing was refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::backend_unavailable);
    EXPECT_THAT(error.what(), testing::HasSubstr("box.enabled"));
  }
}

TEST(Policy, ReadsAsStrictlyAsItsCallerWishes) {
  const boost::json::object request = object(R"({"session_id": "s", "later": 1})");
  EXPECT_EQ(model::refusal_of([&] { Policy({}).apply({}, request); }), "");
  EXPECT_EQ(
      model::refusal_of([&] { Policy({}).apply({.leniency = model::Leniency::strict}, request); }),
      "later: unknown field");
}

}  // namespace
}  // namespace caisson::service
