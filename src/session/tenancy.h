#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

// Many workspaces of a LangBot instance on one daemon: the names that keep them apart. The rules
// and the digests are LangBot's, because its clients compute the same names.
namespace caisson::session {

// Whom a call is made for: a workspace, and the generation of its placement on this daemon.
struct Tenant {
  std::string instance;
  std::string workspace;
  std::int64_t generation = 1;
  bool operator==(const Tenant&) const = default;
};

// "ws-108378aeed2d7cca4480d35e": what the workspace's lasting data is filed under.
std::string workspace_namespace(std::string_view instance, std::string_view workspace);
inline std::string workspace_namespace(const Tenant& tenant) {
  return workspace_namespace(tenant.instance, tenant.workspace);
}

// "ws-108378aeed2d7cca4480d35e-g1-": what all its sessions begin with.
std::string placement_prefix(const Tenant& tenant);

// The name without what is no letter, digit, "_", "." or "-": each run of it becomes one "-", and
// none is left at the ends. May come out empty.
std::string safe_name(std::string_view name);

// The tenant that a session belongs to, and what it calls it. nullopt: it is no tenant's.
struct Placement {
  std::string name_space;
  std::int64_t generation = 1;
  std::string name;
};
std::optional<Placement> find_placement(std::string_view session_id);
std::string name_space_of(std::string_view session_id);  // empty: it is no tenant's

// The highest generation seen of each workspace: whoever acts for a lower one has been replaced.
// Filed under namespaces, so that the names of sessions are enough to know it again.
class GenerationFence {
 public:
  // True: it is higher than any before. Throws forbidden when it is lower, and when it would be one
  // more workspace than `capacity`.
  bool advance(const std::string& name_space, std::int64_t generation, std::size_t capacity);

  // Throws forbidden when there is a higher one.
  void check(const std::string& name_space, std::int64_t generation) const;

  std::optional<std::int64_t> find(const std::string& name_space) const;

 private:
  std::map<std::string, std::int64_t> highest_;
};

}  // namespace caisson::session
