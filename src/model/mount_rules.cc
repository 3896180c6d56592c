#include "model/mount_rules.h"

#include <algorithm>
#include <iterator>

#include "base/path.h"
#include "base/str.h"
#include "base/text.h"

namespace caisson::model {
namespace {

constexpr const char* kBlocked[] = {"/etc",
                                    "/proc",
                                    "/sys",
                                    "/dev",
                                    "/root",
                                    "/boot",
                                    "/run",
                                    "/var/run",
                                    "/var/lib/docker",
                                    "/var/lib/containerd",
                                    "/var/lib/containers"};
constexpr const char* kReadOnly[] = {"/usr",   "/bin",   "/sbin",  "/lib",
                                     "/lib32", "/lib64", "/libx32"};

std::string tenants_of(const std::string& shared) {
  return str(shared, "/", kTenants);
}

// Why the path is not for this box's workspace, or for none.
std::string foreign(const std::string& resolved, const MountRules& rules) {
  const bool tenant = !rules.name_space.empty();
  const auto is_own = [&](const std::string& shared) {
    return is_within(resolved, str(tenants_of(shared), "/", rules.name_space));
  };
  if (tenant && std::any_of(rules.shared.begin(), rules.shared.end(), is_own)) return {};
  for (const std::string& shared : rules.shared) {
    const std::string tenants = tenants_of(shared);
    if (is_within(resolved, tenants)) return "it belongs to another workspace";
    if (tenant && is_within(resolved, shared)) return "it does not belong to this workspace";
    if (tenant && is_within(tenants, resolved)) {
      return str("it contains ", tenants, ", where other workspaces have theirs");
    }
  }
  return {};
}

}  // namespace

std::string mount_refusal(const std::string& resolved, MountMode mode, const MountRules& rules) {
  std::vector<std::string> blocked(std::begin(kBlocked), std::end(kBlocked));
  blocked.insert(blocked.end(), rules.protected_paths.begin(), rules.protected_paths.end());
  for (const std::string& path : blocked) {
    if (is_within(resolved, path)) return str(path, " of the host is never shown to a box");
    if (is_within(path, resolved))
      return str("it contains ", path, ", which is never shown to a box");
  }
  if (std::string why = foreign(resolved, rules); !why.empty()) return why;
  const auto contains = [&](const std::string& root) { return is_within(resolved, root); };
  if (!rules.roots.empty() && std::none_of(rules.roots.begin(), rules.roots.end(), contains)) {
    return str("it is outside allowed_mount_roots: ", join(rules.roots, ", "));
  }
  if (mode != MountMode::rw) return {};
  for (const char* path : kReadOnly) {
    if (is_within(resolved, path)) return str(path, " can be mounted read-only at most");
  }
  return {};
}

std::vector<std::string> hidden_below(const std::string& resolved, const MountRules& rules) {
  std::vector<std::string> hidden;
  for (const std::string& shared : rules.shared) {
    std::string tenants = tenants_of(shared);
    if (tenants != resolved && is_within(tenants, resolved)) hidden.push_back(std::move(tenants));
  }
  return hidden;
}

}  // namespace caisson::model
