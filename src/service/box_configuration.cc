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
constexpr const char* kMountRoots = "box.local.allowed_mount_roots";

// What an operator who says nothing allows.
const std::vector<std::string> kDefaultRoots = {std::string(model::kDefaultHostRoot)};

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
    found.push_back(resolved(root, kMountRoots));
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
             .roots = resolved_roots(operators_.local.mount_roots()),
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

std::optional<fs::path> BoxConfiguration::sender_directory(const model::LocalConfig& local) const {
  const std::optional<std::string>& root = operators_.local.host_root;
  if (!root || !fs::path(*root).is_absolute()) return std::nullopt;
  const fs::path known = normalise_path(*root);
  if (!local.host_root || fs::path(*local.host_root).is_absolute()) return known;
  fs::path before = known;
  fs::path rest = fs::path(*local.host_root).lexically_normal();
  if (!rest.has_filename()) rest = rest.parent_path();  // "data/box/"
  while (!rest.empty() && before.filename() == rest.filename()) {
    before = before.parent_path();
    rest = rest.parent_path();
  }
  return rest.empty() ? before : known;
}

// What a host wrote as relative is of the directory in which that host runs, not of ours.
void BoxConfiguration::make_absolute(const json::object& submitted,
                                     model::LocalConfig& local) const {
  const std::optional<fs::path> directory = sender_directory(local);
  const auto is_relative = [](const std::string& path) {
    return !path.empty() && !path.starts_with('/');
  };
  const auto place = [&](std::string_view field, std::string& path) {
    if (!is_relative(path)) return;
    if (directory) {
      path = (*directory / path).native();
      return;
    }
    throw Error(
        ErrorCode::mount_refused,
        str(field, ": \"", printable(path),
            "\" is relative to the directory of the host that sent it, which this daemon does not "
            "know; nothing was changed. Write that directory, for example \"box: {local: "
            "{host_root: /opt/langbot}}\", into the daemon's configuration (/etc/caisson/"
            "caisson.yaml; of an ordinary user ~/.config/caisson/caisson.yaml) and restart it, or "
            "an absolute path into ",
            field, " of the host's"));
  };
  const auto is_sent = [&](const char* name) { return submitted.contains(name); };
  if (is_sent("host_root") && local.host_root) place(kHostRoot, *local.host_root);
  if (is_sent("allowed_mount_roots")) {
    std::erase_if(local.allowed_mount_roots, [&](const std::string& root) {
      const bool nowhere = is_relative(root) && !directory;
      if (nowhere)
        log::warning("a host's relative mount root is not taken", "root", printable(root));
      return nowhere;
    });
    for (std::string& root : local.allowed_mount_roots) place(kMountRoots, root);
  }
  if (local.host_root) return;  // the others are below it
  if (is_sent("default_workspace")) place(kWorkspace, local.default_workspace);
  if (is_sent("skills_root") && !local.skills_root.starts_with('~')) {
    place(kSkills, local.skills_root);
  }
}

// What the operator named, or what is in force already, is not the host's to name.
void BoxConfiguration::judge(const Places& named, Roots roots) const {
  const model::MountRules rules{.protected_paths = rules_.protected_paths,
                                .roots = roots == Roots::any
                                             ? std::vector<std::string>()
                                             : resolved_roots(operators_.local.mount_roots())};
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
  if (local.mount_roots() == config_.local.mount_roots()) return;
  const bool are_written = operators_.local.mount_roots() != kDefaultRoots;
  allowed.clear();
  if (are_written || roots == Roots::operators) {
    allowed = resolved_roots(operators_.local.mount_roots());
  }
  std::vector<std::string> taken;
  for (const std::string& root : local.mount_roots()) {
    std::string place = resolved(root, kMountRoots);
    const bool within = is_below_any(place, allowed);
    if (!within && roots == Roots::operators) {
      log::warning("a host's mount root is not the operator's and is not taken", "root", place);
      continue;
    }
    taken.push_back(root);
    if (!within) allowed.push_back(std::move(place));
  }
  if (taken.empty()) taken = operators_.local.mount_roots();
  local.allowed_mount_roots = std::move(taken);
}

void BoxConfiguration::apply(const json::object& submitted, Sender sender, bool in_use) {
  json::object tree = submitted;
  tree.erase("native");
  if (in_use) tree.erase("backend");
  model::BoxConfig next = model::read_box_config(tree, config_).config;
  if (!tree.contains("admission")) next.admission = config_.admission;
  std::vector<std::string> allowed = rules_.roots;
  Places places = places_;
  if (const json::value* local = tree.if_contains("local")) {
    if (!sender.is_parent && local->is_object()) make_absolute(local->get_object(), next.local);
    take_roots(next.local, sender.roots, allowed);
    places = places_of(next.local);
    judge(places, sender.roots);
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
  const std::string_view fix =
      wanted == "nsjail"
          ? "set box.backend to local, or let the native backend answer to that name with "
            "box.native.answer_as: nsjail"
          : "set box.backend to local";
  return str("LangBot Box backend unavailable. box.backend is \"", printable(wanted),
             "\" and this daemon has only \"", name, "\": ", fix);
}

}  // namespace caisson::service
