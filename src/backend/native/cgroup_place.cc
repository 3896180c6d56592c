#include "backend/native/cgroup_place.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/error.h"
#include "base/file.h"
#include "base/str.h"
#include "base/text.h"

namespace caisson::backend::native {

namespace {

constexpr std::array kLimiting = {Controller::memory, Controller::pids, Controller::cpu};

std::set<Controller> read_controllers(const std::filesystem::path& file) {
  const std::string text = find_file_content(file).value_or("");
  return parse_controllers(text);
}

// Only the root of a hierarchy has no cgroup.type, and only the root may hold processes and
// controllers.
bool is_root(const std::filesystem::path& directory) {
  return ::access((directory / "cgroup.type").c_str(), F_OK) != 0;
}

// 0, or the errno of what keeps this process from making cgroups in the directory.
int write_error(const std::filesystem::path& directory, CgroupVersion version) {
  const auto writable = [](const std::filesystem::path& path) {
    return ::faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) == 0;
  };
  if (!writable(directory) || !writable(directory / entry_file(version))) return errno;
  if (version == CgroupVersion::v2 && !writable(directory / "cgroup.subtree_control")) return errno;
  return 0;
}

bool others_live_in(const std::filesystem::path& directory, pid_t self) {
  const std::string text = find_file_content(directory / "cgroup.procs").value_or("");
  for (const std::string_view line : split(text, '\n')) {
    if (!line.empty() && parse_integer(line) != self) return true;
  }
  return false;
}

std::string scope_command() {
  return str("systemd-run ", ::geteuid() == 0 ? "" : "--user ",
             "--scope -p Delegate=yes caisson ...");
}

ControllerState not_writable(Controller controller, const CgroupHierarchy& hierarchy, int error) {
  ControllerState state{.controller = controller};
  state.detail = str(hierarchy.base.native(), " cannot be written: ", error_text(error));
  if (error == EROFS) {
    state.fix = "mount the cgroup file systems read-write; a container needs --privileged for that";
  } else if (::geteuid() == 0) {
    state.fix = "run caisson as the host's root, outside of a restricted container";
  } else if (hierarchy.version == CgroupVersion::v2) {
    state.fix = str("start caisson in a delegated scope: ", scope_command());
  } else {
    state.fix = "run caisson as root, or start it in cgroups that belong to this user";
  }
  return state;
}

ControllerState not_delegated(Controller controller, const CgroupHierarchy& hierarchy) {
  const std::string_view name = to_string(controller);
  ControllerState state{.controller = controller};
  const std::filesystem::path& top = hierarchy.top.empty() ? hierarchy.base : hierarchy.top;
  if (is_root(top) && !read_controllers(top / "cgroup.controllers").contains(controller)) {
    state.detail = str("the kernel offers no ", name, " controller to cgroup v2");
    state.fix = str("boot a kernel that has it enabled (cgroup_enable=", name, ")");
    return state;
  }
  state.detail = str("the ", name, " controller is not delegated to ", hierarchy.base.native());
  state.fix = ::geteuid() == 0
                  ? str("start caisson in a delegated scope: ", scope_command())
                  : str("as root, put \"[Service]\\nDelegate=cpu memory pids\" into "
                        "/etc/systemd/system/user@.service.d/delegate.conf, run systemctl "
                        "daemon-reload, log in again and use ",
                        scope_command());
  return state;
}

ControllerState crowded(Controller controller, const std::filesystem::path& directory) {
  return {.controller = controller,
          .detail = str("other processes live in ", directory.native(),
                        ", so the kernel enables no controllers below it"),
          .fix = str("start caisson alone in a cgroup: ", scope_command())};
}

ControllerState usable(Controller controller, CgroupVersion version,
                       const std::filesystem::path& directory) {
  return {.controller = controller,
          .usable = true,
          .detail = str("cgroup ", version == CgroupVersion::v1 ? "v1" : "v2", " in ",
                        directory.native())};
}

CgroupPlace place_on_v1(const CgroupHierarchy& hierarchy) {
  CgroupPlace place{.directory = hierarchy.base};
  const int error = write_error(hierarchy.base, hierarchy.version);
  place.writable = error == 0;
  for (const Controller controller : hierarchy.controllers) {
    place.controllers.push_back(place.writable
                                    ? usable(controller, hierarchy.version, hierarchy.base)
                                    : not_writable(controller, hierarchy, error));
  }
  return place;
}

CgroupPlace place_on_v2(const CgroupHierarchy& hierarchy, const std::filesystem::path& directory,
                        pid_t self) {
  CgroupPlace place{.directory = directory};
  const int error = write_error(directory, hierarchy.version);
  place.writable = error == 0;
  const std::set<Controller> offered = read_controllers(directory / "cgroup.controllers");
  const std::set<Controller> enabled = read_controllers(directory / "cgroup.subtree_control");
  const bool is_crowded = !is_root(directory) && others_live_in(directory, self);
  for (const Controller controller : hierarchy.controllers) {
    if (!place.writable) {
      place.controllers.push_back(not_writable(controller, hierarchy, error));
    } else if (!offered.contains(controller)) {
      place.controllers.push_back(not_delegated(controller, hierarchy));
    } else if (is_crowded && !enabled.contains(controller)) {
      place.controllers.push_back(crowded(controller, directory));
    } else {
      place.controllers.push_back(usable(controller, hierarchy.version, directory));
      if (!enabled.contains(controller)) place.enable.push_back(controller);
    }
  }
  place.leave_first = !place.enable.empty() && !is_root(directory) && directory == hierarchy.own;
  return place;
}

ControllerState not_mounted(Controller controller, CgroupMode mode) {
  const std::string_view name = to_string(controller);
  ControllerState state{.controller = controller};
  state.detail = str("no mounted cgroup hierarchy shows this process's ", name, " cgroup");
  state.fix = mode == CgroupMode::v1 || mode == CgroupMode::hybrid
                  ? str("as root: mount -t cgroup -o ", name, " none /sys/fs/cgroup/", name)
                  : "as root: mount -t cgroup2 none /sys/fs/cgroup";
  return state;
}

model::LayerReport to_report(const ControllerState& state) {
  return {.layer = layer_of(state.controller),
          .state = state.usable ? model::LayerState::in_force : model::LayerState::missing,
          .detail = state.detail,
          .fix = state.fix};
}

std::ptrdiff_t usable_count(const CgroupPlace& place) {
  return std::count_if(place.controllers.begin(), place.controllers.end(),
                       [](const ControllerState& state) { return state.usable; });
}

}  // namespace

CgroupPlace choose_place(const CgroupHierarchy& hierarchy, pid_t self) {
  if (hierarchy.version == CgroupVersion::v1) return place_on_v1(hierarchy);
  CgroupPlace own = place_on_v2(hierarchy, hierarchy.base, self);
  if (hierarchy.top.empty()) return own;
  CgroupPlace top = place_on_v2(hierarchy, hierarchy.top, self);
  const bool better = usable_count(top) > usable_count(own) || (top.writable && !own.writable);
  return better ? top : own;
}

model::Layer layer_of(Controller controller) {
  switch (controller) {
    case Controller::memory:
      return model::Layer::memory_limit;
    case Controller::pids:
      return model::Layer::pids_limit;
    case Controller::cpu:
    case Controller::cpuacct:
      return model::Layer::cpu_limit;
  }
  throw Error(ErrorCode::internal_error, "control groups: no such controller");
}

std::vector<model::LayerReport> report_limits(const CgroupHost& host) {
  std::vector<model::LayerReport> reports;
  for (const Controller controller : kLimiting) {
    const CgroupHierarchy* hierarchy = host.find(controller);
    if (hierarchy == nullptr) {
      reports.push_back(to_report(not_mounted(controller, host.mode)));
      continue;
    }
    for (const ControllerState& state : choose_place(*hierarchy).controllers) {
      if (state.controller == controller) reports.push_back(to_report(state));
    }
  }
  return reports;
}

}  // namespace caisson::backend::native
