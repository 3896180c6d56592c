#include "model/profile.h"

#include <gmock/gmock.h>

#include "model/refusal_for_test.h"

namespace caisson::model {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

boost::json::object object(const char* text) {
  return parse_json(text).as_object();
}

// But for the network of the default one, which LangBot has on since 0.7: nothing gets out of a box
// of ours unasked.
TEST(BuiltinProfiles, HaveTheValuesOfLangBot) {
  const auto off = NetworkMode::off;
  const auto on = NetworkMode::on;
  const auto box = [](NetworkMode network, MountMode mode, double cpus, std::int64_t memory,
                      std::int64_t pids, bool read_only) {
    return BoxSettings{.network = network,
                       .image = "rockchin/langbot-sandbox:latest",
                       .host_path_mode = mode,
                       .cpus = cpus,
                       .memory_mb = memory,
                       .pids_limit = pids,
                       .read_only_rootfs = read_only};
  };
  const auto rw = MountMode::rw;
  EXPECT_THAT(
      builtin_profiles(),
      ElementsAre(Profile{"default", box(off, rw, 1.0, 512, 128, true), 30, 120, {}},
                  Profile{"network_basic", box(on, rw, 1.0, 512, 128, true), 30, 120, {}},
                  Profile{"network_extended", box(on, rw, 2.0, 1024, 256, false), 30, 300, {}},
                  Profile{"offline", box(off, rw, 1.0, 512, 128, true), 30, 120, {}},
                  Profile{"offline_readonly",
                          box(off, MountMode::ro, 0.5, 256, 64, true),
                          30,
                          60,
                          {"network", "host_path_mode", "read_only_rootfs"}}));
}

TEST(GetProfile, TrimsAndTakesBlankAsDefault) {
  EXPECT_EQ(get_profile(" network_basic ").name, "network_basic");
  EXPECT_EQ(get_profile("  ").name, "default");
  EXPECT_EQ(refusal_of([] { get_profile("fast"); }),
            "unknown box profile 'fast', available profiles: default, network_basic, "
            "network_extended, offline, offline_readonly");
}

TEST(ApplyProfile, FillsInOnlyWhatIsAbsent) {
  const AppliedProfile applied =
      apply_profile(get_profile("default"), object(R"({"cpus": 4, "image": null, "x": 1})"));
  EXPECT_EQ(boost::json::value(applied.payload),
            parse_json(R"({"cpus": 4, "image": null, "x": 1, "network": "off", "timeout_sec": 30,
    "host_path_mode": "rw", "memory_mb": 512, "pids_limit": 128, "read_only_rootfs": true,
    "workspace_quota_mb": 0})"));
  EXPECT_THAT(applied.overridden, IsEmpty());
}

TEST(ApplyProfile, OverwritesLockedFieldsAndSaysSo) {
  const AppliedProfile applied = apply_profile(
      get_profile("offline_readonly"),
      object(R"({"network": "on", "host_path_mode": "ro", "read_only_rootfs": "yes", "cpus": 1})"));
  EXPECT_EQ(applied.payload.at("network"), "off");
  EXPECT_EQ(applied.payload.at("host_path_mode"), "ro");
  EXPECT_EQ(applied.payload.at("read_only_rootfs"), true);
  EXPECT_EQ(applied.payload.at("cpus"), 1);
  EXPECT_EQ(applied.payload.at("memory_mb"), 256);
  EXPECT_THAT(applied.overridden, ElementsAre("network"));
}

TEST(ApplyProfile, ClampsTheTimeoutInWhateverFormItComes) {
  const std::pair<const char*, const char*> rows[] = {
      {"999", "120"},           {R"("999")", "120"},    {"999.0", "120"}, {R"(" 1_000 ")", "120"},
      {"120", "120"},           {R"("60")", R"("60")"}, {"true", "true"}, {"-5", "-5"},
      {R"("abc")", R"("abc")"}, {"999.5", "999.5"},     {"null", "null"}, {"1e30", "120"},
  };
  for (const auto& [asked, given] : rows) {
    const AppliedProfile applied =
        apply_profile(get_profile("default"), {{"timeout_sec", parse_json(asked)}});
    EXPECT_EQ(applied.payload.at("timeout_sec"), parse_json(given)) << asked;
    EXPECT_EQ(applied.overridden.empty(),
              std::string_view(given) != "120" || std::string_view(asked) == "120")
        << asked;
  }
}

TEST(BuildRequest, AppliesWorkspaceQuotaImageAndProfileInOrder) {
  const RequestDefaults defaults{.profile = get_profile("network_extended"),
                                 .default_workspace = "/srv/box/default",
                                 .workspace_quota_mb = 77,
                                 .image = "debian"};
  const BoxRequest request =
      build_request(defaults,
                    object(R"({"session_id": "s", "host_path": "", "workspace_quota_mb": ""})"))
          .request;
  EXPECT_EQ(request, (BoxRequest{.session_id = "s",
                                 .box = {.network = NetworkMode::on,
                                         .image = "debian",
                                         .host_path = "/srv/box/default",
                                         .cpus = 2.0,
                                         .memory_mb = 1024,
                                         .pids_limit = 256,
                                         .read_only_rootfs = false,
                                         .workspace_quota_mb = 77}}));
  const BoxRequest own = build_request(defaults, object(R"({"session_id": "s", "host_path": "/own",
    "workspace_quota_mb": 1, "image": "alpine", "timeout_sec": "999"})"))
                             .request;
  EXPECT_EQ(own.box.host_path, "/own");
  EXPECT_EQ(own.box.workspace_quota_mb, 1);
  EXPECT_EQ(own.box.image, "alpine");
  EXPECT_EQ(own.command.timeout_sec, 300);
}

TEST(BuildRequest, LeavesNullsForValidationToRefuse) {
  const RequestDefaults defaults{.profile = get_profile("default")};
  const auto refusal = [&](const char* text) {
    return refusal_of([&] { build_request(defaults, object(text)); });
  };
  EXPECT_EQ(refusal(R"({"session_id": "s", "host_path": null})"), "");
  EXPECT_EQ(refusal(R"({"session_id": "s", "host_path": ""})"),
            "host_path must be an absolute host path");
  EXPECT_EQ(refusal(R"({"session_id": "s", "workspace_quota_mb": null})"),
            "workspace_quota_mb: must be an integer");
  EXPECT_EQ(refusal(R"({"session_id": "s", "timeout_sec": "abc"})"),
            "timeout_sec: must be an integer");
  EXPECT_EQ(refusal(R"({"session_id": "s", "env": null})"), "env: must be an object");
}

}  // namespace
}  // namespace caisson::model
