#include "isolation.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <optional>

#include "backend/native/cgroup_place.h"
#include "base/str.h"
#include "base/text.h"

namespace caisson::security_test {
namespace {

// What an ordinary user's boxes cannot promise. Everything that is not in this table holds for them
// too.
struct OrdinaryUserLimit {
  std::string_view row_or_check;
  std::string_view reason;
  std::optional<model::Layer> unless;  // the reason is none where this layer can be had
};
constexpr OrdinaryUserLimit kOrdinaryUserLimits[] = {
    {"I12", "an ordinary user cannot connect a network namespace to the host's uplink"},
    {"host_root_uid", "an ordinary user's own namespace lies between, and calls him 0"},
    {"host_root_gid", "an ordinary user's own namespace lies between, and calls his group 0"},
    {"host_groups", "an ordinary user cannot drop the supplementary groups he came with"},
    {"kill_pid1", "guest and payload share the one uid an ordinary user has"},
    {"res_fork", "an ordinary user has no pids cgroup unless one is delegated",
     model::Layer::pids_limit},
    {"res_memory", "an ordinary user has no memory cgroup unless one is delegated",
     model::Layer::memory_limit},
    {"res_tcp_buffers", "an ordinary user has no memory cgroup unless one is delegated",
     model::Layer::memory_limit},
    {"res_cpu", "an ordinary user has no cpu cgroup unless one is delegated",
     model::Layer::cpu_limit},
    {"workspace_owner", "an ordinary user cannot give a workspace to somebody else"},
};

// The layers behind that table: the operator accepts their absence, or no box would start.
constexpr model::Layer kOrdinaryUserLacks[] = {
    model::Layer::user_namespace,
    model::Layer::memory_limit,
    model::Layer::pids_limit,
    model::Layer::cpu_limit,
};

bool is_root() {
  return ::geteuid() == 0;
}

bool can_be_had(model::Layer layer) {
  namespace native = backend::native;
  for (const model::LayerReport& report : native::report_limits(native::inspect_cgroups())) {
    if (report.layer == layer) return report.state == model::LayerState::in_force;
  }
  return false;
}

std::string describe(const backend::RunResult& result) {
  std::string text(trim(result.out.data));
  if (result.timed_out) text += " (timed out)";
  if (result.exit.signal != 0) text += str(" (signal ", result.exit.signal, ")");
  if (!result.err.data.empty()) text += str(" (", trim(result.err.data), ")");
  return text;
}

bool is_as_promised(const backend::RunResult& result, const std::string& check) {
  const bool expected = result.out.data.starts_with(str(check, " denied: ")) ||
                        result.out.data.starts_with(str(check, " ok: "));
  return expected && result.exit.exit_code == 0 && result.exit.signal == 0 && !result.timed_out;
}

}  // namespace

std::set<model::Layer> withheld_by_environment() {
  std::set<model::Layer> layers;
  const char* names = std::getenv("CAISSON_TEST_WITHHOLD");
  if (names == nullptr) return layers;
  for (const std::string_view name : split(names, ',')) {
    const std::optional<model::Layer> layer = model::layer_from_string(trim(name));
    if (!layer) throw std::runtime_error(str("CAISSON_TEST_WITHHOLD: no layer is named ", name));
    layers.insert(*layer);
  }
  return layers;
}

std::string_view reason_to_skip(std::string_view row_or_check) {
  if (is_root()) return {};
  const auto* const found = std::find_if(
      std::begin(kOrdinaryUserLimits), std::end(kOrdinaryUserLimits),
      [&](const OrdinaryUserLimit& limit) { return limit.row_or_check == row_or_check; });
  if (found == std::end(kOrdinaryUserLimits)) return {};
  return found->unless && can_be_had(*found->unless) ? std::string_view() : found->reason;
}

Isolation::Isolation() : work_(io_.get_executor()) {
  native_ = make_backend(options());
}

Isolation::~Isolation() {
  try {
    finish(native_->stop());
  } catch (const std::exception& error) {
    ADD_FAILURE() << "the backend does not stop: " << error.what();
  }
}

backend::native::Options Isolation::options() const {
  backend::native::Options options;
  // There is one, so that boxes are shown the tools.
  options.state_dir = directories_.path() / "state";
  std::filesystem::create_directories(options.state_dir);
  options.withhold = withheld_by_environment();
  options.allow_missing = options.withhold;
  if (!is_root()) {
    options.allow_missing.insert(std::begin(kOrdinaryUserLacks), std::end(kOrdinaryUserLacks));
  }
  return options;
}

std::unique_ptr<backend::native::Native> Isolation::make_backend(backend::native::Options options) {
  return std::make_unique<backend::native::Native>(io_.get_executor(), std::move(options));
}

model::BoxSettings Isolation::spec() const {
  model::BoxSettings box_spec;
  model::MountSpec mount;
  mount.host_path = std::filesystem::path(CAISSON_PAYLOAD_PATH).parent_path().native();
  mount.mount_path = std::filesystem::path(kPayload).parent_path().native();
  mount.mode = model::MountMode::ro;
  box_spec.extra_mounts.push_back(std::move(mount));
  return box_spec;
}

model::BoxSettings Isolation::spec_with_own_root() const {
  model::BoxSettings box_spec = spec();
  model::MountSpec mount;
  mount.host_path = elsewhere_.path().native();
  mount.mount_path = "/elsewhere";
  mount.mode = model::MountMode::ro;
  box_spec.extra_mounts.push_back(std::move(mount));
  return box_spec;
}

std::unique_ptr<backend::Box> Isolation::create_box(model::BoxSettings box_spec) {
  return finish(native_->create(std::move(box_spec)));
}

void Isolation::destroy(backend::Box& box) {
  finish(box.destroy(std::chrono::milliseconds(0)));
}

backend::RunResult Isolation::run(backend::Box& box, std::vector<std::string> argv) {
  backend::RunRequest request;
  request.process.argv = std::move(argv);
  request.process.env = backend::default_environment();
  request.timeout = kPatience / 2;
  return finish(backend::run(box, std::move(request)));
}

backend::RunResult Isolation::run_payload(backend::Box& box, std::vector<std::string> words) {
  words.insert(words.begin(), kPayload);
  return run(box, std::move(words));
}

void Isolation::prove_check(backend::Box& box, const std::string& check,
                            const CheckArguments& arguments) {
  std::vector<std::string> words = {"check", check};
  const auto argument = arguments.find(check);
  if (argument != arguments.end()) words.push_back(argument->second);
  for (const char* when : {"as the first process", "as a later process"}) {
    const backend::RunResult result = run_payload(box, words);
    EXPECT_TRUE(is_as_promised(result, check)) << when << ": " << describe(result);
  }
}

std::vector<std::string> Isolation::checks_of(std::string_view row) const {
  std::vector<std::string> names;
  for (const ListedCheck& check : listed_checks()) {
    if (std::find(check.rows.begin(), check.rows.end(), row) == check.rows.end()) continue;
    const std::string_view reason = reason_to_skip(check.name);
    if (reason.empty()) names.push_back(check.name);
    if (!reason.empty()) std::cout << row << " without " << check.name << ": " << reason << "\n";
  }
  return names;
}

void Isolation::prove_row(std::string_view row, const model::BoxSettings& box_spec,
                          const CheckArguments& more_arguments) {
  CheckArguments arguments = more_arguments;
  arguments.insert(host_.arguments().begin(), host_.arguments().end());
  const std::vector<std::string> names = checks_of(row);
  EXPECT_FALSE(names.empty()) << "the payload program has no check for row " << row;
  for (const std::string& name : names) {
    const std::unique_ptr<backend::Box> box = create_box(box_spec);
    prove_check(*box, name, arguments);
    EXPECT_TRUE(box->alive()) << name << " ended the box";
    destroy(*box);
  }
}

}  // namespace caisson::security_test
