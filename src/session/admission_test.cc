#include "session/admission.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace caisson::session {
namespace {

using std::chrono::seconds;

constexpr std::size_t kMany = 100;
const Tenant kTenant{"inst", "ws", 1};
const model::Timestamp kNow{std::chrono::hours(1'000'000)};

model::AdmissionSettings required() {
  model::AdmissionSettings settings;
  settings.policy.required = true;
  return settings;
}

model::AdmissionGrant grant(std::int64_t revision = 1, std::int64_t generation = 1) {
  return {.instance_uuid = "inst",
          .workspace_uuid = "ws",
          .execution_generation = generation,
          .entitlement_revision = revision,
          .max_sessions = 1,
          .max_managed_processes = 0,
          .expires_at = kNow + seconds(60)};
}

std::string sentence_of(const auto& work) {
  try {
    work();
    return "";
  } catch (const Error& error) {
    return std::string(to_string(error.code())) + ": " + error.what();
  }
}

std::string refused(const std::string& sentence) {
  return "admission_refused: " + sentence;
}

TEST(Admission, AdmitsNobodyWithoutAGrant) {
  const Admission admission(required());
  EXPECT_EQ(sentence_of([&] { admission.check(kTenant, kNow); }),
            refused("Sandbox admission grant is missing"));
}

TEST(Admission, AdmitsWhoHasAGrantUntilItExpires) {
  Admission admission(required());
  const Admission::Installed installed = admission.install(grant(), kNow, kMany);
  EXPECT_EQ(installed.grant, grant());
  EXPECT_EQ(installed.sessions, Admission::Sessions::end_all);
  EXPECT_EQ(sentence_of([&] { admission.check(kTenant, kNow + seconds(59)); }), "");
  EXPECT_EQ(sentence_of([&] { admission.check(kTenant, kNow + seconds(60)); }),
            refused("Sandbox admission grant has expired"));
  EXPECT_EQ(sentence_of([&] {
              admission.check({"inst", "ws", 2}, kNow);
            }),
            refused("Sandbox admission grant belongs to another execution generation"));
  EXPECT_EQ(sentence_of([&] { admission.check_processes(kTenant, kNow); }),
            refused("Sandbox admission grant does not permit managed processes"));
}

TEST(Admission, RefusesGrantsInTheOrderOfItsChecks) {
  Admission off;
  EXPECT_EQ(sentence_of([&] { off.install(grant(), kNow, kMany); }),
            refused("Sandbox admission enforcement is not enabled"));
  model::AdmissionSettings faulty = required();
  faulty.configuration_error = "x";
  Admission broken(faulty);
  EXPECT_EQ(sentence_of([&] { broken.install(grant(), kNow, kMany); }),
            "not_ready: Invalid sandbox admission configuration: x");

  Admission admission(required());
  const auto sentence = [&](const auto& change) {
    model::AdmissionGrant changed = grant(5, 5);
    change(changed);
    return sentence_of([&] { admission.install(changed, kNow, kMany); });
  };
  EXPECT_EQ(sentence([](auto&) {}), "");
  EXPECT_EQ(sentence([](auto& g) { g.expires_at = kNow; }),
            refused("Cannot install an expired sandbox admission grant"));
  EXPECT_EQ(sentence([](auto& g) { g.expires_at = kNow + seconds(301); }),
            refused("Sandbox admission grant lifetime exceeds the configured maximum"));
  EXPECT_EQ(sentence([](auto& g) { g.max_sessions = 2; }),
            refused("Sandbox admission grant exceeds the session cap"));
  EXPECT_EQ(sentence([](auto& g) { g.max_managed_processes = 1; }),
            refused("Sandbox admission grant exceeds the managed-process cap"));
  EXPECT_EQ(sentence([](auto& g) { g.entitlement_revision = 4; }),
            refused("Sandbox admission grant revision is stale"));
  EXPECT_EQ(sentence([](auto& g) { g.execution_generation = 4; }),
            refused("Sandbox admission execution generation is stale"));
  EXPECT_EQ(sentence([](auto& g) { g.max_sessions = 0; }),
            refused("Sandbox admission limits changed without a new entitlement revision"));
}

TEST(Admission, KeepsTheGrantThatLastsLonger) {
  Admission admission(required());
  admission.install(grant(), kNow, kMany);
  model::AdmissionGrant shorter = grant();
  shorter.expires_at = kNow + seconds(10);
  EXPECT_EQ(admission.install(shorter, kNow, kMany).grant, grant());
  model::AdmissionGrant longer = grant();
  longer.expires_at = kNow + seconds(200);
  const Admission::Installed renewed = admission.install(longer, kNow, kMany);
  EXPECT_EQ(renewed.grant, longer);
  EXPECT_EQ(renewed.sessions, Admission::Sessions::keep);
}

TEST(Admission, NeverTakesBackWhatWasRevoked) {
  Admission admission(required());
  admission.install(grant(3), kNow, kMany);
  EXPECT_EQ(sentence_of([&] {
              admission.revoke({"inst", "ws", 2}, kMany);
            }),
            refused("Sandbox admission revocation is stale"));
  admission.revoke({"inst", "ws", 3}, kMany);
  EXPECT_EQ(sentence_of([&] { admission.check(kTenant, kNow); }),
            refused("Sandbox admission grant is missing"));
  EXPECT_EQ(sentence_of([&] { admission.install(grant(3), kNow, kMany); }),
            refused("Sandbox admission grant revision was revoked"));
  EXPECT_EQ(sentence_of([&] { admission.install(grant(4), kNow, kMany); }), "");
  EXPECT_EQ(sentence_of([&] { admission.revoke({"inst", "never seen", 1}, kMany); }), "");
}

TEST(Admission, IsBounded) {
  Admission admission(required());
  admission.install(grant(), kNow, 1);
  model::AdmissionGrant other = grant();
  other.workspace_uuid = "other";
  const std::string full = refused(
      "Sandbox admission record capacity reached; refusing an unbounded Workspace fence "
      "allocation");
  EXPECT_EQ(sentence_of([&] { admission.install(other, kNow, 1); }), full);
  EXPECT_EQ(sentence_of([&] { admission.revoke({"inst", "other", 1}, 1); }), full);
}

TEST(Admission, ForgetsGrantsThatHaveExpired) {
  Admission admission(required());
  admission.install(grant(), kNow, kMany);
  EXPECT_TRUE(admission.expire(kNow).empty());
  EXPECT_EQ(admission.expire(kNow + seconds(60)),
            std::vector<std::string>{workspace_namespace("inst", "ws")});
  EXPECT_TRUE(admission.expire(kNow + seconds(60)).empty());
  admission.install(grant(2), kNow, kMany);
  EXPECT_EQ(admission.expire(kNow + seconds(61)).size(), 1u);
}

TEST(Admission, GivesEveryTenantWhatThePolicySays) {
  model::AdmissionPolicy policy = required().policy;
  policy.memory_mb = 256;
  policy.workspace_quota_mb = 64;
  model::BoxRequest asked;
  asked.command = {
      .cmd = "true", .workdir = "/workspace/sub", .timeout_sec = 1000, .env = {{"A", "b"}}};
  asked.box = {.image = "another", .cpus = 64, .memory_mb = 1 << 20, .read_only_rootfs = false};
  const model::BoxRequest admitted = admitted_request(asked, policy, "/srv/w");
  asked.command.timeout_sec = 120;
  EXPECT_EQ(admitted.command, asked.command);
  EXPECT_EQ(admitted.box.cpus, 1.0);
  EXPECT_EQ(admitted.box.memory_mb, 256);
  EXPECT_EQ(admitted.box.image, model::kDefaultImage);
  EXPECT_EQ(admitted.box.host_path, "/srv/w");
  EXPECT_TRUE(admitted.box.read_only_rootfs);
  EXPECT_TRUE(admitted.box.persistent);
  EXPECT_EQ(admitted.box.workspace_quota_mb, 64);
}

TEST(Admission, RefusesWhatTenantsMayNotAskFor) {
  const auto sentence = [](const auto& change) {
    model::BoxRequest asked;
    change(asked);
    return sentence_of([&] { admitted_request(asked, required().policy, "/srv/w"); });
  };
  EXPECT_EQ(sentence([](auto& s) { s.box.network = model::NetworkMode::on; }),
            refused("Managed sandbox network access is disabled"));
  EXPECT_EQ(sentence([](auto& s) {
              s.box.extra_mounts = {{"/srv/x", "/x"}};
              s.mounting = model::Mounting::follows;
            }),
            refused("Managed sandbox additional host mounts are disabled"));
  const auto mounted = [&](std::vector<model::MountSpec> mounts) {
    return sentence([&](auto& s) { s.box.extra_mounts = std::move(mounts); });
  };
  const model::MountSpec fine{"/srv/x", "/workspace/x", model::MountMode::ro};
  EXPECT_EQ(mounted({fine}), "");
  EXPECT_EQ(mounted({fine, fine}),
            refused("Managed sandbox additional mount targets must be unique"));
  EXPECT_EQ(mounted({{"/srv/x", "/workspace/x"}}),
            refused("Managed sandbox additional mounts must be read-only"));
  EXPECT_EQ(mounted({{"/srv/x", "/workspace", model::MountMode::ro}}),
            refused("Managed sandbox additional mount targets must stay under /workspace"));
  EXPECT_EQ(mounted({257, fine}), refused("Managed sandbox accepts at most 256 read-only mounts"));
  EXPECT_EQ(sentence([](auto& s) { s.box.mount_path = "/data"; }),
            refused("Managed sandbox mount_path is runtime-owned"));
  EXPECT_EQ(sentence([](auto& s) { s.command.workdir = "/workspaces"; }),
            refused("Managed sandbox workdir must stay under /workspace"));
  EXPECT_EQ(sentence([](auto& s) { s.box.host_path = "/srv/other"; }),
            refused("Managed sandbox host_path is runtime-owned"));
  EXPECT_EQ(sentence([](auto& s) { s.box.host_path = "/srv/w"; }), "");
}

}  // namespace
}  // namespace caisson::session
