#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend/native/host.h"
#include "wire/launch.h"

// The root of a launcher, from which every box of its image begins. Pure, as plan.h.
namespace caisson::backend::native {

// A directory of ours with programs that the host lacks.
struct ShownTools {
  std::string path;
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::string set;  // which of those in it is used
};

// The root file system that boxes of one image share.
struct RootImage {
  std::string rootfs;  // an imported directory tree; empty: the host's own system directories
  std::string passwd;  // of the image, to which the box's user is added
  std::string group;
  std::vector<std::string> system_directories;  // of those of a host, what the tree has: "/usr"
  std::optional<ShownTools> tools = {};         // beside the host's own directories
  bool is_host() const { return rootfs.empty(); }
};

// The launcher's root. `idmap` is a user namespace that shows the owners of files as they are on
// disk.
wire::Plan plan_template(const Host& host, const RootImage& image, wire::FdIndex idmap);

// How what belongs to the system is mounted.
inline constexpr std::uint32_t kSystem = wire::kReadOnly | wire::kNoSuid | wire::kNoDev;

// Where the host's tree stays reachable for an ordinary user's launcher, who binds mounts from it.
// Boxes unmount it. An image has no directory for it, but a /run that is covered by a tmpfs then.
std::string host_at(const RootImage& image);

// Who owns the files of the root, where it is built.
std::uint32_t root_owner(const Host& host);

// Of the default image: where the tools are (model/tools.h).
inline constexpr const char* kToolRoot = "/opt/caisson";

// Where programs and libraries are.
std::vector<std::string> system_directories(const Host& host, const RootImage& image);

// Each a path and what the file there says.
void add_files(wire::Plan& plan, const std::vector<std::pair<std::string, std::string>>& files);

}  // namespace caisson::backend::native
