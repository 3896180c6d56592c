#include "service/box_configuration.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <system_error>

#include "base/beneath.h"
#include "base/error.h"
#include "base/log.h"
#include "base/path.h"
#include "base/str.h"
#include "base/text.h"

namespace caisson::service {

namespace fs = std::filesystem;
namespace json = boost::json;

namespace {

constexpr const char* kHostRoot = "box.local.host_root";
constexpr const char* kWorkspace = "box.local.default_workspace";
constexpr const char* kSkills = "box.local.skills_root";

[[noreturn]] void refuse(const std::string& sentence) {
  throw Error(ErrorCode::validation_error, sentence);
}

std::string resolved(const fs::path& path, std::string_view subject) {
  if (path.native().find('\0') != std::string::npos) refuse(str(subject, ": NUL is not allowed"));
  std::error_code error;
  const fs::path found = fs::weakly_canonical(fs::absolute(path), error);
  if (error) refuse(str(subject, ": ", path.native(), ": ", error.message()));
  return normalise_path(found.native());
}

bool is_below_any(const std::string& path, const std::vector<std::string>& roots) {
  return std::any_of(roots.begin(), roots.end(),
                     [&](const std::string& root) { return is_within(path, root); });
}

// Relative paths are below the root.
std::string below_root(const model::LocalConfig& local, const std::string& path,
                       std::string_view subject) {
  const fs::path given(path);
  if (given.is_absolute() || !local.host_root) return resolved(given, subject);
  return resolved(fs::path(*local.host_root) / given, subject);
}

std::string with_home(std::string path) {
  if (path != "~" && !path.starts_with("~/")) return path;
  const char* home = std::getenv("HOME");  // NOLINT: nobody changes it
  if (home != nullptr) path.replace(0, 1, home);
  return path;
}

// The directory of sessions whose host says nothing else, made below a root if it is missing.
void ensure_workspace(const std::string& workspace, const std::vector<std::string>& roots) {
  const auto refuse_it = [](const std::string& why) {
    throw Error(ErrorCode::mount_refused, str(kWorkspace, " ", why));
  };
  const UniqueFd found = open_absolute(workspace, O_PATH);
  struct stat info {};
  if (found && ::fstat(found.get(), &info) == 0) {
    if (S_ISDIR(info.st_mode)) return;
    refuse_it("must point to a directory on the Box runtime host");
  }
  if (roots.empty()) {
    refuse_it("cannot be created because no allowed_mount_roots are configured");
  }
  if (!is_below_any(workspace, roots)) {
    refuse_it(str("is outside allowed_mount_roots: ", join(roots, ", ")));
  }
  try {
    make_directories(workspace);
  } catch (const SystemError& error) {
    refuse_it(error.what());
  }
}

}  // namespace

std::vector<std::string> resolved_roots(const std::vector<std::string>& roots) {
  std::vector<std::string> found;
  found.reserve(roots.size());
  for (const std::string& root : roots) {
    found.push_back(resolved(root, "box.local.allowed_mount_roots"));
  }
  return found;
}

BoxConfiguration::BoxConfiguration(model::BoxConfig config,
                                   const std::vector<std::string>& protected_paths)
    : operators_(config),
      config_(std::move(config)),
      operators_places_(places_of(operators_.local)),
      places_(operators_places_),
      rules_{.protected_paths = {},
             .roots = resolved_roots(operators_.local.allowed_mount_roots),
             .shared = shared_of(places_)} {
  for (const std::string& path : protected_paths) {
    rules_.protected_paths.push_back(resolved(path, "protected path"));
  }
}

BoxConfiguration::Places BoxConfiguration::places_of(const model::LocalConfig& local) {
  Places places;
  if (local.host_root) places.host_root = resolved(*local.host_root, kHostRoot);
  if (!local.default_workspace.empty() || local.host_root) {
    const std::string name =
        local.default_workspace.empty() ? std::string("default") : local.default_workspace;
    places.workspace = below_root(local, name, kWorkspace);
  }
  places.skills = below_root(local, with_home(local.skills_root), kSkills);
  return places;
}

std::vector<std::string> BoxConfiguration::shared_of(const Places& places) {
  std::vector<std::string> shared{*places.skills};
  if (places.workspace) shared.push_back(*places.workspace);
  return shared;
}

// What the operator named, or what is in force already, is not the host's to name.
void BoxConfiguration::judge(const Places& named, Roots roots) const {
  const model::MountRules rules{
      .protected_paths = rules_.protected_paths,
      .roots = roots == Roots::any ? std::vector<std::string>()
                                   : resolved_roots(operators_.local.allowed_mount_roots)};
  const auto check = [&](std::string_view field, std::optional<std::string> Places::*place) {
    const std::optional<std::string>& path = named.*place;
    if (!path || path == operators_places_.*place || path == places_.*place) return;
    const std::string why = model::mount_refusal(*path, model::MountMode::rw, rules);
    if (why.empty()) return;
    throw Error(ErrorCode::mount_refused,
                str(field, why.starts_with("it ") ? why.substr(2) : ": " + why, " (",
                    printable(*path), "); nothing was changed. Name another directory",
                    roots == Roots::any ? "" : ", or show the token that lets a host name any"));
  };
  check(kHostRoot, &Places::host_root);
  check(kWorkspace, &Places::workspace);
  check(kSkills, &Places::skills);
}

// Those of the host that it may not name are not taken, and not remembered either: they would be
// the next host's, who may name any.
void BoxConfiguration::take_roots(model::LocalConfig& local, Roots roots,
                                  std::vector<std::string>& allowed) const {
  if (local.allowed_mount_roots == config_.local.allowed_mount_roots) return;
  allowed = resolved_roots(operators_.local.allowed_mount_roots);
  std::vector<std::string> taken;
  for (const std::string& root : local.allowed_mount_roots) {
    std::string place = resolved(root, "box.local.allowed_mount_roots");
    const bool within = is_below_any(place, allowed);
    if (!within && roots == Roots::operators) {
      log::warning("a host's mount root is not the operator's and is not taken", "root", place);
      continue;
    }
    taken.push_back(root);
    if (!within) allowed.push_back(std::move(place));
  }
  if (taken.empty()) taken = operators_.local.allowed_mount_roots;
  local.allowed_mount_roots = std::move(taken);
}

void BoxConfiguration::apply(const json::object& submitted, Roots roots, bool in_use) {
  json::object tree = submitted;
  tree.erase("native");
  if (in_use) tree.erase("backend");
  model::BoxConfig next = model::read_box_config(tree, config_).config;
  if (!tree.contains("admission")) next.admission = config_.admission;
  std::vector<std::string> allowed = rules_.roots;
  Places places = places_;
  if (tree.contains("local")) {
    take_roots(next.local, roots, allowed);
    places = places_of(next.local);
    judge(places, roots);
    if (places.workspace) ensure_workspace(*places.workspace, allowed);
  }
  config_ = std::move(next);
  places_ = std::move(places);
  rules_.roots = std::move(allowed);
  rules_.shared = shared_of(places_);
  if (on_change_) on_change_(*this);
}

fs::path BoxConfiguration::tenant_workspace(const std::string& name_space) const {
  if (!places_.workspace) refuse("box.local.default_workspace is not set");
  return fs::path(*places_.workspace) / model::kTenants / name_space;
}

std::string BoxConfiguration::backend_refusal(std::string_view name) const {
  const std::string& wanted = config_.backend;
  if (wanted.empty() || wanted == "local" || wanted == name) return {};
  const std::string_view mend =
      wanted == "nsjail"
          ? "set box.backend to local, or let the native backend answer to that name with "
            "box.native.answer_as: nsjail"
          : "set box.backend to local";
  return str("LangBot Box backend unavailable. box.backend is \"", printable(wanted),
             "\" and this daemon has only \"", name, "\": ", mend);
}

}  // namespace caisson::service
