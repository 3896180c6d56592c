#include "backend/native/layers.h"

#include <unistd.h>

#include <utility>

#include "base/error.h"
#include "base/exhaustion.h"
#include "base/str.h"
#include "base/text.h"
#include "wire/plan.h"

namespace caisson::backend::native {

using model::Layer;
using model::LayerReport;
using model::LayerState;

namespace {

LayerReport in_force(Layer layer, std::string detail) {
  return {.layer = layer, .state = LayerState::in_force, .detail = std::move(detail), .fix = ""};
}

LayerReport weaker(Layer layer, std::string detail, std::string fix) {
  return {.layer = layer,
          .state = LayerState::weaker,
          .detail = std::move(detail),
          .fix = std::move(fix)};
}

LayerReport user_namespace(const Host& host) {
  if (host.privileged) {
    return in_force(Layer::user_namespace, "own host ids for the payload and for process 1");
  }
  return weaker(Layer::user_namespace,
                str("the payload and process 1 share host uid ", ::geteuid(),
                    " with you, and what the kernel counts for a user"),
                "run caisson as root: every box then has host ids of its own");
}

LayerReport network(const LayerFacts& facts, const model::BoxSettings& settings) {
  if (settings.network == model::NetworkMode::off) {
    return in_force(Layer::network, "own namespace with a loopback device only");
  }
  if (facts.network && !facts.network->available) {
    return missing(Layer::network, facts.network->reason, facts.network->fix);
  }
  if (!facts.host.resolver_problem.empty()) {
    return weaker(
        Layer::network,
        str("own namespace behind NAT, but no name can be resolved: ", facts.host.resolver_problem),
        facts.host.resolver_fix);
  }
  return in_force(Layer::network, "own namespace and addresses behind NAT; not the host's network");
}

LayerReport workspace_owner(const Host& host) {
  if (host.privileged) {
    return in_force(Layer::workspace_owner, "files written to mounts belong to the mount's owner");
  }
  return in_force(Layer::workspace_owner, "files written to mounts belong to you");
}

LayerReport guest_protection(const Host& host) {
  if (host.privileged) {
    return in_force(Layer::guest_protection, "process 1 has another uid and cannot be traced");
  }
  return weaker(Layer::guest_protection, "process 1 cannot be traced, but has the payload's uid",
                "run caisson as root");
}

LayerReport expected(Layer layer, const LayerFacts& facts, const model::BoxSettings& settings) {
  switch (layer) {
    case Layer::user_namespace:
      return user_namespace(facts.host);
    case Layer::mount_namespace:
      return in_force(layer,
                      settings.read_only_rootfs ? "own root, read-only" : "own root, writable");
    case Layer::pid_namespace:
    case Layer::ipc_namespace:
    case Layer::uts_namespace:
    case Layer::cgroup_namespace:
      return in_force(layer, "own");
    case Layer::network:
      return network(facts, settings);
    case Layer::capabilities:
      return in_force(layer, "all sets empty, no_new_privs");
    case Layer::seccomp:
      return in_force(layer, "allow-list, foreign ABIs killed");
    case Layer::proc_masks:
      return in_force(layer, "kernel files hidden, sysctls read-only");
    case Layer::own_inodes:
      return in_force(layer, "system directories through an overlay of the box's own");
    case Layer::bounded_storage:
      return in_force(layer, "bytes and inodes of writable places bounded");
    case Layer::workspace_owner:
      return workspace_owner(facts.host);
    case Layer::guest_protection:
      return guest_protection(facts.host);
    case Layer::memory_limit:
    case Layer::pids_limit:
    case Layer::cpu_limit:
      break;
  }
  for (const LayerReport& report : facts.limits) {
    if (report.layer == layer) return report;
  }
  return missing(layer, "no control group can be used", "mount the cgroup file systems");
}

Layer layer_of(wire::Proof proof) {
  switch (proof) {
    case wire::Proof::user_namespace:
      return Layer::user_namespace;
    case wire::Proof::mount_namespace:
      return Layer::mount_namespace;
    case wire::Proof::pid_namespace:
      return Layer::pid_namespace;
    case wire::Proof::ipc_namespace:
      return Layer::ipc_namespace;
    case wire::Proof::uts_namespace:
      return Layer::uts_namespace;
    case wire::Proof::cgroup_namespace:
      return Layer::cgroup_namespace;
    case wire::Proof::network_namespace:
      return Layer::network;
    case wire::Proof::capabilities:
      return Layer::capabilities;
    case wire::Proof::seccomp:
      return Layer::seccomp;
    case wire::Proof::proc_masks:
      return Layer::proc_masks;
    case wire::Proof::bounded_storage:
      return Layer::bounded_storage;
    case wire::Proof::cgroup_membership:
      return Layer::memory_limit;
    case wire::Proof::guest_protection:
      return Layer::guest_protection;
    case wire::Proof::own_inodes:
      return Layer::own_inodes;
  }
  return Layer::mount_namespace;
}

}  // namespace

LayerReport missing(Layer layer, std::string detail, std::string fix) {
  return {.layer = layer,
          .state = LayerState::missing,
          .detail = std::move(detail),
          .fix = std::move(fix)};
}

bool can_be_missing(Layer layer) {
  switch (layer) {
    case Layer::cgroup_namespace:
    case Layer::seccomp:
    case Layer::proc_masks:
    case Layer::own_inodes:
    case Layer::workspace_owner:
    case Layer::memory_limit:
    case Layer::pids_limit:
    case Layer::cpu_limit:
      return true;
    default:
      return false;
  }
}

model::IsolationReport expected_layers(const LayerFacts& facts,
                                       const model::BoxSettings& settings) {
  model::IsolationReport report;
  for (const Layer layer : model::all_layers()) {
    if (facts.withhold.contains(layer)) {
      report.layers.push_back(missing(layer, "withheld by configuration", "do not withhold it"));
    } else {
      report.layers.push_back(expected(layer, facts, settings));
    }
  }
  return report;
}

void require_layers(const model::IsolationReport& report, const std::set<Layer>& accepted) {
  for (const LayerReport& entry : report.layers) {
    if (entry.state != LayerState::missing) continue;
    const std::string_view name = to_string(entry.layer);
    if (!can_be_missing(entry.layer)) {
      throw Error(ErrorCode::isolation_unavailable,
                  str("isolation layer ", name, " cannot be put in force: ", entry.detail,
                      "; to fix it: ", entry.fix));
    }
    if (accepted.contains(entry.layer)) continue;
    throw Error(ErrorCode::isolation_unavailable,
                str("isolation layer ", name, " cannot be put in force: ", entry.detail,
                    "; to fix it: ", entry.fix, "; to run without it: --allow-missing ", name));
  }
}

Error setup_failure(const SystemError& error) {
  const std::string_view failed = error.what();
  constexpr std::string_view kBox = "the box could not be made: ";
  // What the kernel answers when it may only run compiled filters and may not compile another one.
  constexpr int kNotSupported = 524;
  if (error.error_number() == kNotSupported && failed.starts_with(wire::kInstallFilterStep)) {
    return {ErrorCode::busy,
            str(kBox, wire::kInstallFilterStep,
                ": the filters of other programs on this host take all the memory that the kernel "
                "has for compiled ones; end programs that attach filters, or give it more: "
                "`sysctl net.core.bpf_jit_limit` shows how much, `sysctl -w` with twice as much "
                "raises it")};
  }
  return {is_exhaustion(error.error_number()) ? ErrorCode::busy : ErrorCode::isolation_unavailable,
          str(kBox, failed)};
}

void report_left_out(const std::vector<wire::ProofResult>& proofs, model::IsolationReport& report) {
  for (const wire::ProofResult& result : proofs) {
    if (result.holds || result.proof != wire::Proof::own_inodes) continue;
    for (LayerReport& entry : report.layers) {
      if (entry.layer != Layer::own_inodes) continue;
      entry = missing(Layer::own_inodes, str("no overlay could be mounted: ", result.detail),
                      "run on a kernel with overlayfs, not in more than one overlay");
    }
  }
}

void require_proofs(const std::vector<wire::ProofResult>& proofs, const std::set<Layer>& accepted) {
  for (const wire::ProofResult& result : proofs) {
    if (result.holds) continue;
    // Left out by the plan where it was not to be had.
    if (result.proof == wire::Proof::own_inodes && accepted.contains(Layer::own_inodes)) continue;
    throw Error(ErrorCode::isolation_unavailable,
                str("isolation layer ", to_string(layer_of(result.proof)),
                    " was set up but does not hold from inside the box: ", result.detail));
  }
}

}  // namespace caisson::backend::native
