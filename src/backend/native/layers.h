#pragma once
#include <set>
#include <string>
#include <vector>

#include "backend/native/cgroup.h"
#include "backend/native/host.h"
#include "backend/native/network.h"
#include "base/error.h"
#include "model/box_settings.h"
#include "model/isolation.h"
#include "wire/guest.h"

// Which layers a box gets, and what is said about them.
namespace caisson::backend::native {

// What is known about the host's layers before a box is made.
struct LayerFacts {
  const Host& host;
  std::vector<model::LayerReport> limits;  // of CgroupOwner
  std::optional<NetworkProbe> network;     // when the box wants one
  std::set<model::Layer> withhold;
};

// The report of a box with these settings, as far as it can be told before the box proves it.
model::IsolationReport expected_layers(const LayerFacts& facts, const model::BoxSettings& settings);

// Layers a box can do without when the operator accepts it. Without the others there is no box.
bool can_be_missing(model::Layer layer);

// Throws isolation_unavailable, naming the layer and the step that fixes it, for the first layer
// that is missing and was not accepted.
void require_layers(const model::IsolationReport& report, const std::set<model::Layer>& accepted);

// Throws isolation_unavailable for a proof that does not hold, except of a layer that the plan may
// leave out because its absence is accepted.
void require_proofs(const std::vector<wire::ProofResult>& proofs,
                    const std::set<model::Layer>& accepted);

// Says of such a layer that it is missing.
void report_left_out(const std::vector<wire::ProofResult>& proofs, model::IsolationReport& report);

// What is said of a box of which a step failed. The names of steps are those of the launcher.
Error setup_failure(const SystemError& error);

model::LayerReport missing(model::Layer layer, std::string detail, std::string fix);

}  // namespace caisson::backend::native
