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

}  // namespace

std::string mount_refusal(const std::string& resolved, MountMode mode, const MountRules& rules) {
  std::vector<std::string> blocked(std::begin(kBlocked), std::end(kBlocked));
  blocked.insert(blocked.end(), rules.protected_paths.begin(), rules.protected_paths.end());
  for (const std::string& path : blocked) {
    if (is_within(resolved, path)) return str(path, " of the host is never shown to a box");
    if (is_within(path, resolved))
      return str("it contains ", path, ", which is never shown to a box");
  }
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

}  // namespace caisson::model
