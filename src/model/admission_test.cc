#include "model/admission.h"

#include <gtest/gtest.h>

#include <limits>

#include "model/refusal_for_test.h"

namespace caisson::model {
namespace {

const char* const kGrant = R"({"instance_uuid": " i ", "workspace_uuid": "w",
  "execution_generation": 2, "entitlement_revision": 3, "max_sessions": 1,
  "max_managed_processes": 0, "expires_at": "2026-11-15T20:45:33+02:00"})";

boost::json::value grant_with(const char* name, const boost::json::value& value) {
  boost::json::object object = parse_json(kGrant).as_object();
  object[name] = value;
  return object;
}
std::string grant_refusal(const char* name, const char* text) {
  const boost::json::value grant = grant_with(name, parse_json(text));
  return refusal_of([&] { read_admission_grant(grant); });
}
std::string policy_refusal(const char* text) {
  const boost::json::value section = parse_json(text);
  return refusal_of([&] { read_admission_policy(section); });
}

TEST(ReadAdmissionGrant, ReadsEveryFieldAndShowsUtc) {
  const AdmissionGrant grant = read_admission_grant(parse_json(kGrant));
  EXPECT_EQ(boost::json::value(to_json(grant)),
            parse_json(R"({"instance_uuid": "i", "workspace_uuid": "w", "execution_generation": 2,
    "entitlement_revision": 3, "max_sessions": 1, "max_managed_processes": 0,
    "expires_at": "2026-11-15T18:45:33+00:00"})"));
  EXPECT_EQ(read_admission_grant(to_json(grant)), grant);
}

TEST(ReadAdmissionGrant, RefusesWhatItDoesNotUnderstandToTheLetter) {
  EXPECT_EQ(grant_refusal("instance_uuid", R"("  ")"), "instance_uuid: must not be empty");
  EXPECT_EQ(grant_refusal("workspace_uuid", R"("")"), "workspace_uuid: must not be empty");
  EXPECT_EQ(grant_refusal("workspace_uuid", "7"), "workspace_uuid: must be a string");
  EXPECT_EQ(grant_refusal("execution_generation", "0"), "execution_generation: must be at least 1");
  EXPECT_EQ(grant_refusal("entitlement_revision", "0"), "entitlement_revision: must be at least 1");
  EXPECT_EQ(grant_refusal("max_sessions", "-1"), "max_sessions: must be at least 0");
  EXPECT_EQ(grant_refusal("max_managed_processes", "-1"),
            "max_managed_processes: must be at least 0");
  for (const char* text : {"true", R"("1")", "1.0", "null", "18446744073709551615"}) {
    EXPECT_EQ(grant_refusal("max_sessions", text), "max_sessions: must be an integer") << text;
  }
  EXPECT_EQ(grant_refusal("extra", "1"), "extra: unknown field");
  EXPECT_EQ(grant_refusal("expires_at", R"("2026-11-15T20:45:33")"),
            "expires_at must include a timezone");
  EXPECT_EQ(grant_refusal("expires_at", R"("soon")"),
            "expires_at: must be a date and time, e.g. 2026-11-15T18:45:33Z");
  boost::json::object object = parse_json(kGrant).as_object();
  object.erase("expires_at");
  EXPECT_EQ(refusal_of([&] { read_admission_grant(object); }), "expires_at: is required");
}

TEST(ReadAdmissionRevocation, IsAsStrictAsTheGrant) {
  const auto read = [](const char* text) { return read_admission_revocation(parse_json(text)); };
  EXPECT_EQ(read(R"({"instance_uuid": "i", "workspace_uuid": " w ", "entitlement_revision": 1})"),
            (AdmissionRevocation{"i", "w", 1}));
  const auto refusal = [&](const char* text) { return refusal_of([&] { read(text); }); };
  EXPECT_EQ(
      refusal(R"({"instance_uuid": "i", "workspace_uuid": "w", "entitlement_revision": "1"})"),
      "entitlement_revision: must be an integer");
  EXPECT_EQ(refusal(R"({"instance_uuid": "i", "workspace_uuid": "w", "entitlement_revision": 0})"),
            "entitlement_revision: must be at least 1");
  EXPECT_EQ(refusal(R"({"instance_uuid": "i", "workspace_uuid": "w", "entitlement_revision": 1,
                        "max_sessions": 1})"),
            "max_sessions: unknown field");
}

TEST(ReadAdmissionPolicy, FillsInTheDefaults) {
  const AdmissionPolicy policy = read_admission_policy(parse_json("{}"));
  EXPECT_EQ(policy, AdmissionPolicy());
  EXPECT_EQ(boost::json::value(to_json(policy)),
            parse_json(R"({"required": false, "logical_session_id": "global",
    "required_backend": "nsjail", "max_sessions": 1, "max_managed_processes": 0,
    "max_grant_ttl_sec": 300, "max_timeout_sec": 120, "cpus": 1.0, "memory_mb": 512,
    "pids_limit": 128, "read_only_rootfs": true, "workspace_quota_mb": 0,
    "readiness_cache_sec": 15})"));
  EXPECT_EQ(read_admission_policy(to_json(policy)), policy);
}

TEST(ReadAdmissionPolicy, RefusesEveryRuleThatIsBroken) {
  const std::pair<const char*, const char*> rows[] = {
      {R"({"required": "maybe"})", "admission.required: must be true or false"},
      {R"({"logical_session_id": "x"})", R"(admission.logical_session_id: must be "global")"},
      {R"({"required_backend": "docker"})", R"(admission.required_backend: must be "nsjail")"},
      {R"({"max_sessions": 2})", "admission.max_sessions: must be at most 1"},
      {R"({"max_sessions": -1})", "admission.max_sessions: must be at least 0"},
      {R"({"max_managed_processes": 1})", "admission.max_managed_processes: must be at most 0"},
      {R"({"max_grant_ttl_sec": 0})", "admission.max_grant_ttl_sec: must be at least 1"},
      {R"({"max_timeout_sec": 0})", "admission.max_timeout_sec: must be at least 1"},
      {R"({"cpus": 0})", "admission.cpus: must be greater than 0"},
      {R"({"cpus": "1"})", "admission.cpus: must be a number"},
      {R"({"cpus": true})", "admission.cpus: must be a number"},
      {R"({"memory_mb": 31})", "admission.memory_mb: must be at least 32"},
      {R"({"memory_mb": "64"})", "admission.memory_mb: must be an integer"},
      {R"({"pids_limit": 0})", "admission.pids_limit: must be at least 1"},
      {R"({"pids_limit": true})", "admission.pids_limit: must be an integer"},
      {R"({"read_only_rootfs": 3})", "admission.read_only_rootfs: must be true or false"},
      {R"({"workspace_quota_mb": -1})", "admission.workspace_quota_mb: must be at least 0"},
      {R"({"readiness_cache_sec": -1})", "admission.readiness_cache_sec: must be at least 0"},
      {R"({"requird": true})", "admission.requird: unknown field"},
  };
  for (const auto& [text, sentence] : rows) EXPECT_EQ(policy_refusal(text), sentence) << text;
  const boost::json::value infinite{{"cpus", std::numeric_limits<double>::infinity()}};
  EXPECT_EQ(refusal_of([&] { read_admission_policy(infinite); }),
            "admission.cpus: must be a finite number");
  EXPECT_TRUE(read_admission_policy(parse_json(R"({"required": "on", "cpus": 2})")).required);
}

TEST(UpdateAdmission, TakesAnAbsentSectionAsNotRequired) {
  EXPECT_EQ(update_admission({}, nullptr), AdmissionSettings());
}

TEST(UpdateAdmission, RequiresAdmissionWhenTheSectionIsMalformed) {
  for (const char* text : {R"({"required": "maybe"})", R"({"requird": true})", "null", "[]",
                           "false", R"({"max_sessions": 9})"}) {
    const boost::json::value section = parse_json(text);
    const AdmissionSettings settings = update_admission({}, &section);
    EXPECT_TRUE(settings.policy.required) << text;
    EXPECT_NE(settings.configuration_error, "") << text;
  }
}

TEST(UpdateAdmission, NeverTurnsEnforcementOffOnceItIsOn) {
  const boost::json::value strict = parse_json(R"({"required": true, "memory_mb": 64})");
  const AdmissionSettings on = update_admission({}, &strict);
  EXPECT_EQ(on.configuration_error, "");
  const boost::json::value off = parse_json(R"({"required": false})");
  for (const boost::json::value* section :
       {&off, static_cast<const boost::json::value*>(nullptr)}) {
    const AdmissionSettings kept = update_admission(on, section);
    EXPECT_EQ(kept.policy, on.policy);
    EXPECT_EQ(
        kept.configuration_error,
        "Sandbox admission enforcement cannot be disabled without restarting the Box Runtime");
  }
  const AdmissionSettings mended = update_admission(update_admission(on, &off), &strict);
  EXPECT_EQ(mended, on);
}

}  // namespace
}  // namespace caisson::model
