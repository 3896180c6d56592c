#include "service/box_configuration.h"

#include <algorithm>
#include <system_error>

#include "base/error.h"
#include "base/log.h"
#include "base/path.h"
#include "base/str.h"
#include "base/text.h"

namespace caisson::service {

namespace fs = std::filesystem;
namespace json = boost::json;

namespace {

constexpr const char* kTenants = "tenants";

[[noreturn]] void refuse(const std::string& sentence) {
  throw Error(ErrorCode::validation_error, sentence);
}

fs::path resolved(const fs::path& path, std::string_view subject) {
  std::error_code error;
  fs::path found = fs::weakly_canonical(fs::absolute(path), error);
  if (error) refuse(str(subject, ": ", path.native(), ": ", error.message()));
  const std::string normal = normalise_path(found.native());
  return normal;
}

bool is_below_any(const std::string& path, const std::vector<std::string>& roots) {
  return std::any_of(roots.begin(), roots.end(),
                     [&](const std::string& root) { return is_within(path, root); });
}

// Relative paths are below the root.
fs::path below_root(const model::LocalConfig& local, const std::string& path,
                    std::string_view subject) {
  const fs::path given(path);
  if (given.is_absolute() || !local.host_root) return resolved(given, subject);
  return resolved(fs::path(*local.host_root) / given, subject);
}

}  // namespace

std::vector<std::string> resolved_roots(const std::vector<std::string>& roots) {
  std::vector<std::string> found;
  found.reserve(roots.size());
  for (const std::string& root : roots) {
    found.push_back(resolved(root, "box.local.allowed_mount_roots").native());
  }
  return found;
}

void BoxConfiguration::apply(const json::object& submitted, Roots roots, bool in_use) {
  json::object tree = submitted;
  tree.erase("native");
  if (in_use) tree.erase("backend");
  model::BoxConfig next = model::read_box_config(tree, config_).config;
  if (!tree.contains("admission")) next.admission = config_.admission;
  std::vector<std::string> allowed = resolved_roots(operators_.local.allowed_mount_roots);
  for (std::string& root : resolved_roots(next.local.allowed_mount_roots)) {
    if (is_below_any(root, allowed)) continue;
    if (roots == Roots::any) {
      allowed.push_back(std::move(root));
    } else {
      log::warning("a host's mount root is not the operator's and is not taken", "root", root);
    }
  }
  config_ = std::move(next);
  mount_roots_ = std::move(allowed);
  if (on_change_) on_change_(*this);
}

std::optional<fs::path> BoxConfiguration::default_workspace() const {
  const model::LocalConfig& local = config_.local;
  if (local.default_workspace.empty() && !local.host_root) return std::nullopt;
  const std::string name =
      local.default_workspace.empty() ? std::string("default") : local.default_workspace;
  return below_root(local, name, "box.local.default_workspace");
}

void BoxConfiguration::ensure_default_workspace() const {
  constexpr std::string_view kSubject = "box.local.default_workspace";
  const std::optional<fs::path> workspace = default_workspace();
  if (!workspace) return;
  std::error_code error;
  const fs::file_status status = fs::status(*workspace, error);
  if (fs::exists(status)) {
    if (fs::is_directory(status)) return;
    refuse(str(kSubject, " must point to a directory on the Box runtime host"));
  }
  if (mount_roots_.empty()) {
    refuse(str(kSubject, " cannot be created because no allowed_mount_roots are configured"));
  }
  if (!is_below_any(workspace->native(), mount_roots_)) {
    refuse(str(kSubject, " is outside allowed_mount_roots: ", join(mount_roots_, ", ")));
  }
  fs::create_directories(*workspace, error);
  if (error) refuse(str(kSubject, " ", workspace->native(), ": ", error.message()));
}

fs::path BoxConfiguration::tenant_workspace(const std::string& name_space) const {
  const std::optional<fs::path> workspace = default_workspace();
  if (!workspace) refuse("box.local.default_workspace is not set");
  return *workspace / kTenants / name_space;
}

fs::path BoxConfiguration::skills_root() const {
  std::string root = config_.local.skills_root;
  if (root == "~" || root.starts_with("~/")) {
    const char* home = std::getenv("HOME");  // NOLINT: nobody changes it
    if (home != nullptr) root.replace(0, 1, home);
  }
  return below_root(config_.local, root, "box.local.skills_root");
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
