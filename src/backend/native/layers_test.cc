#include "backend/native/layers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "base/error.h"
#include "base/str.h"
#include "wire/plan.h"

namespace caisson::backend::native {
namespace {

using model::Layer;
using model::LayerReport;
using model::LayerState;
using testing::HasSubstr;

const Host kRootHost{.privileged = true};
const Host kUserHost{.privileged = false};

std::vector<LayerReport> limits_in_force() {
  return {{Layer::memory_limit, LayerState::in_force, "512 MiB and no swap", ""},
          {Layer::pids_limit, LayerState::in_force, "128 processes", ""},
          {Layer::cpu_limit, LayerState::in_force, "1 cpu", ""}};
}

LayerFacts facts(const Host& host) {
  return {.host = host, .limits = limits_in_force(), .network = std::nullopt, .withhold = {}};
}

model::BoxSettings box(model::NetworkMode network = model::NetworkMode::off) {
  model::BoxSettings settings;
  settings.network = network;
  return settings;
}

LayerReport reported(const model::IsolationReport& report, Layer layer) {
  const LayerReport* found = report.find(layer);
  return found != nullptr ? *found : missing(layer, "not reported", "");
}

// The sentence with which `action` is refused as isolation_unavailable; "" when it is not refused.
template <typename Action>
std::string refusal_of(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::isolation_unavailable) << error.what();
    return error.what();
  }
  return "";
}

TEST(ExpectedLayers, ReportsEveryLayerOnceInOrder) {
  for (const Host* host : {&kRootHost, &kUserHost}) {
    const model::IsolationReport report = expected_layers(facts(*host), box());
    std::vector<Layer> layers;
    for (const LayerReport& entry : report.layers) layers.push_back(entry.layer);
    EXPECT_EQ(layers, model::all_layers());
  }
}

TEST(ExpectedLayers, AreAllInForceForRoot) {
  const model::IsolationReport report = expected_layers(facts(kRootHost), box());
  EXPECT_TRUE(report.weaker().empty());
  for (const LayerReport& entry : report.layers) {
    EXPECT_NE(entry.detail, "") << to_string(entry.layer);
    EXPECT_EQ(entry.fix, "") << to_string(entry.layer);
  }
}

TEST(ExpectedLayers, SayWhatAnOrdinaryUserLacksAndHowToMendIt) {
  const model::IsolationReport report = expected_layers(facts(kUserHost), box());
  std::vector<Layer> lacking;
  for (const LayerReport& entry : report.weaker()) {
    lacking.push_back(entry.layer);
    EXPECT_EQ(entry.state, LayerState::weaker);
    EXPECT_TRUE(entry.fix.starts_with("run caisson as root")) << entry.fix;
  }
  EXPECT_EQ(lacking, (std::vector<Layer>{Layer::user_namespace, Layer::guest_protection}));
}

TEST(ExpectedLayers, TellAReadOnlyRootFromAWritableOne) {
  model::BoxSettings settings = box();
  EXPECT_EQ(reported(expected_layers(facts(kRootHost), settings), Layer::mount_namespace).detail,
            "own root, read-only");
  settings.read_only_rootfs = false;
  EXPECT_EQ(reported(expected_layers(facts(kRootHost), settings), Layer::mount_namespace).detail,
            "own root, writable");
}

TEST(ExpectedLayers, PassOnWhyThereCanBeNoNetwork) {
  LayerFacts without = facts(kRootHost);
  without.network =
      NetworkProbe{.available = false, .reason = "no default route", .fix = "add a default route"};
  const LayerReport network =
      reported(expected_layers(without, box(model::NetworkMode::on)), Layer::network);
  EXPECT_EQ(network, missing(Layer::network, "no default route", "add a default route"));
  // A box that asks for no network does not care.
  EXPECT_EQ(reported(expected_layers(without, box()), Layer::network).state, LayerState::in_force);
}

TEST(ExpectedLayers, CallANetworkWithoutNamesWeaker) {
  Host host = kRootHost;
  host.resolver_problem = "the resolver listens on 127.0.0.53 only";
  host.resolver_fix = "set a name server";
  LayerFacts known = facts(host);
  known.network = NetworkProbe{.available = true};
  const LayerReport network =
      reported(expected_layers(known, box(model::NetworkMode::on)), Layer::network);
  EXPECT_EQ(network.state, LayerState::weaker);
  EXPECT_NE(network.detail.find(host.resolver_problem), std::string::npos) << network.detail;
  EXPECT_EQ(network.fix, "set a name server");
  EXPECT_EQ(reported(expected_layers(known, box()), Layer::network).state, LayerState::in_force);
}

TEST(ExpectedLayers, TakeLimitsFromTheControlGroups) {
  LayerFacts known = facts(kRootHost);
  known.limits[1] = missing(Layer::pids_limit, "no pids controller", "mount it");
  const model::IsolationReport report = expected_layers(known, box());
  EXPECT_EQ(reported(report, Layer::memory_limit), known.limits[0]);
  EXPECT_EQ(reported(report, Layer::pids_limit), known.limits[1]);
  known.limits.clear();
  for (const Layer layer : {Layer::memory_limit, Layer::pids_limit, Layer::cpu_limit}) {
    EXPECT_EQ(reported(expected_layers(known, box()), layer),
              missing(layer, "no control group can be used", "mount the cgroup file systems"));
  }
}

TEST(ExpectedLayers, TreatWithheldOnesAsMissing) {
  for (const Layer layer : model::all_layers()) {
    LayerFacts known = facts(kRootHost);
    known.withhold = {layer};
    const model::IsolationReport report = expected_layers(known, box());
    EXPECT_EQ(reported(report, layer),
              missing(layer, "withheld by configuration", "do not withhold it"));
    EXPECT_EQ(report.weaker().size(), 1u);
  }
}

TEST(RequireLayers, AcceptsWhatIsInForceOrWeaker) {
  EXPECT_EQ(refusal_of([] { require_layers(expected_layers(facts(kRootHost), box()), {}); }), "");
  EXPECT_EQ(refusal_of([] { require_layers(expected_layers(facts(kUserHost), box()), {}); }), "");
}

TEST(RequireLayers, NamesTheLayerTheCauseAndTheSteps) {
  const model::IsolationReport report{
      {missing(Layer::memory_limit, "no memory controller", "boot with cgroup_enable=memory")}};
  EXPECT_EQ(refusal_of([&] { require_layers(report, {}); }),
            "isolation layer memory_limit cannot be put in force: no memory controller; to fix "
            "it: boot with cgroup_enable=memory; to run without it: --allow-missing memory_limit");
}

TEST(RequireLayers, RefusesEveryMissingLayerByName) {
  for (const Layer layer : model::all_layers()) {
    const model::IsolationReport report{{missing(layer, "because", "the step")}};
    const std::string why = refusal_of([&] { require_layers(report, {}); });
    EXPECT_TRUE(why.starts_with(str("isolation layer ", to_string(layer),
                                    " cannot be put in force: because; to fix it: the step")))
        << why;
    EXPECT_EQ(why.find("--allow-missing") != std::string::npos, can_be_missing(layer)) << why;
  }
}

TEST(RequireLayers, GoesWithoutAcceptedLayersOnlyWhereABoxCan) {
  for (const Layer layer : model::all_layers()) {
    const model::IsolationReport report{{missing(layer, "because", "the step")}};
    EXPECT_EQ(refusal_of([&] { require_layers(report, {layer}); }).empty(), can_be_missing(layer))
        << to_string(layer);
  }
}

TEST(RequireLayers, TakesNoAcceptedLayerForAnother) {
  const model::IsolationReport report{{missing(Layer::seccomp, "old kernel", "update"),
                                       missing(Layer::cpu_limit, "no controller", "mount it")}};
  const std::string why = refusal_of([&] { require_layers(report, {Layer::seccomp}); });
  EXPECT_TRUE(why.starts_with("isolation layer cpu_limit ")) << why;
}

// Without these there is no box at all.
TEST(CanBeMissing, NeverHoldsForTheWallsOfABox) {
  for (const Layer layer : {Layer::user_namespace, Layer::mount_namespace, Layer::pid_namespace,
                            Layer::ipc_namespace, Layer::uts_namespace, Layer::network,
                            Layer::capabilities, Layer::bounded_storage, Layer::guest_protection}) {
    EXPECT_FALSE(can_be_missing(layer)) << to_string(layer);
  }
}

TEST(RequireProofs, AcceptsWhatHolds) {
  std::vector<wire::ProofResult> proofs;
  for (std::uint8_t proof = 0; proof < wire::kProofCount; ++proof) {
    proofs.push_back({.proof = static_cast<wire::Proof>(proof), .holds = true, .detail = ""});
  }
  EXPECT_EQ(refusal_of([&] { require_proofs(proofs, {}); }), "");
}

TEST(RequireProofs, LetsOnlyWhatThePlanMayLeaveOutBeAccepted) {
  const std::vector<wire::ProofResult> proofs = {
      {.proof = wire::Proof::own_inodes, .holds = false, .detail = "/usr is shared with others"}};
  EXPECT_EQ(refusal_of([&] { require_proofs(proofs, {Layer::own_inodes}); }), "");
  model::IsolationReport report{{{Layer::own_inodes, LayerState::in_force, "own", ""}}};
  report_left_out(proofs, report);
  EXPECT_EQ(report.find(Layer::own_inodes)->state, LayerState::missing);
  const std::vector<wire::ProofResult> other = {
      {.proof = wire::Proof::seccomp, .holds = false, .detail = "no filter"}};
  EXPECT_NE(refusal_of([&] { require_proofs(other, {Layer::seccomp}); }), "");
}

TEST(SetupFailure, SaysWhenTheKernelCannotCompileAnotherFilter) {
  constexpr int kNotSupported = 524;  // has no name outside the kernel
  const Error full = setup_failure(SystemError(wire::kInstallFilterStep, kNotSupported));
  EXPECT_EQ(full.code(), ErrorCode::busy);
  EXPECT_THAT(full.what(), HasSubstr("the box could not be made"));
  EXPECT_THAT(full.what(), HasSubstr("install the system call filter"));
  EXPECT_THAT(full.what(), HasSubstr("take all the memory that the kernel has for compiled ones"));
  EXPECT_THAT(full.what(), HasSubstr("net.core.bpf_jit_limit"));
  const Error other = setup_failure(SystemError("mount proc", kNotSupported));
  EXPECT_STREQ(other.what(), "the box could not be made: mount proc: error 524");
}

TEST(SetupFailure, TellsExhaustionFromALayerThatIsNotToBeHad) {
  EXPECT_EQ(setup_failure(SystemError("new namespaces", EAGAIN)).code(), ErrorCode::busy);
  const Error refused = setup_failure(SystemError("new namespaces", EPERM));
  EXPECT_EQ(refused.code(), ErrorCode::isolation_unavailable);
  EXPECT_STREQ(refused.what(),
               "the box could not be made: new namespaces: Operation not permitted");
}

TEST(RequireProofs, NamesTheLayerThatDoesNotHold) {
  const std::pair<wire::Proof, Layer> expected[] = {
      {wire::Proof::user_namespace, Layer::user_namespace},
      {wire::Proof::mount_namespace, Layer::mount_namespace},
      {wire::Proof::pid_namespace, Layer::pid_namespace},
      {wire::Proof::ipc_namespace, Layer::ipc_namespace},
      {wire::Proof::uts_namespace, Layer::uts_namespace},
      {wire::Proof::cgroup_namespace, Layer::cgroup_namespace},
      {wire::Proof::network_namespace, Layer::network},
      {wire::Proof::capabilities, Layer::capabilities},
      {wire::Proof::seccomp, Layer::seccomp},
      {wire::Proof::proc_masks, Layer::proc_masks},
      {wire::Proof::bounded_storage, Layer::bounded_storage},
      {wire::Proof::cgroup_membership, Layer::memory_limit},
      {wire::Proof::guest_protection, Layer::guest_protection},
      {wire::Proof::own_inodes, Layer::own_inodes},
  };
  EXPECT_EQ(std::size(expected), wire::kProofCount);
  for (const auto& [proof, layer] : expected) {
    const std::vector<wire::ProofResult> proofs = {
        {.proof = wire::Proof::uts_namespace, .holds = true, .detail = ""},
        {.proof = proof, .holds = false, .detail = "sysctls can be written"}};
    EXPECT_EQ(refusal_of([&] { require_proofs(proofs, {}); }),
              str("isolation layer ", to_string(layer),
                  " was set up but does not hold from inside the box: sysctls can be written"));
  }
}

}  // namespace
}  // namespace caisson::backend::native
