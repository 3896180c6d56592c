#pragma once
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "model/box_request.h"
#include "model/object_reader.h"

// The one table of what a caller may say of a box and a command. Reading, writing, comparing,
// profiles, the boxes that are made ahead, the options of the command line and the schema follow
// from it: a new field is a member of BoxSettings or Command and a line here.
namespace caisson::model {

// What a field is used for besides being read and written.
struct Uses {
  bool profile = false;  // profiles have a default for it and may lock it
  bool session = false;  // it is shown of a session, and who asks for another value conflicts
  bool kind = false;     // boxes that show nothing of the host differ in it
};

// What a field may be. read() gives the fallback when the field is absent and throws
// validation_error; schema() is what a JSON schema says of it, without a default.
struct SessionName {};
struct Trimmed {};      // text, at whose ends white space does not matter
struct ImageName {};    // spellings of the same image are the same
struct BoxPath {};      // absolute, in the box
struct Workdir {};      // the same; where it is unset it follows the mount path
struct HostPath {};     // absolute, on the host, or null
struct Environment {};  // names and values
struct Mounts {};
struct Flag {};
struct Network {};
struct Mode {};
struct Processors {};
struct Whole {
  std::int64_t least = 0;
  std::int64_t most = 0;
  std::string_view refusal;  // of less than the least
};

using Variables = std::map<std::string, std::string>;
std::string read(SessionName, ObjectReader& reader, std::string_view name, const std::string&);
std::string read(Trimmed, ObjectReader& reader, std::string_view name, const std::string& fallback);
std::string read(ImageName, ObjectReader& reader, std::string_view name,
                 const std::string& fallback);
std::string read(BoxPath, ObjectReader& reader, std::string_view name, const std::string& fallback);
std::string read(Workdir, ObjectReader& reader, std::string_view name, const std::string& fallback);
std::optional<std::string> read(HostPath, ObjectReader& reader, std::string_view name,
                                const std::optional<std::string>& fallback);
Variables read(Environment, ObjectReader& reader, std::string_view name, const Variables& fallback);
std::vector<MountSpec> read(Mounts, ObjectReader& reader, std::string_view name,
                            const std::vector<MountSpec>&);
bool read(Flag, ObjectReader& reader, std::string_view name, bool fallback);
NetworkMode read(Network, ObjectReader& reader, std::string_view name, NetworkMode fallback);
MountMode read(Mode, ObjectReader& reader, std::string_view name, MountMode fallback);
double read(Processors, ObjectReader& reader, std::string_view name, double fallback);
std::int64_t read(const Whole& rule, ObjectReader& reader, std::string_view name,
                  std::int64_t fallback);

boost::json::object schema(SessionName);
boost::json::object schema(Trimmed);
boost::json::object schema(ImageName);
boost::json::object schema(BoxPath);
boost::json::object schema(Workdir);
boost::json::object schema(HostPath);
boost::json::object schema(Environment);
boost::json::object schema(Mounts);
boost::json::object schema(Flag);
boost::json::object schema(Network);
boost::json::object schema(Mode);
boost::json::object schema(Processors);
boost::json::object schema(const Whole& rule);

boost::json::value written(const std::string& value);
boost::json::value written(const std::optional<std::string>& value);
boost::json::value written(const Variables& value);
boost::json::value written(const std::vector<MountSpec>& value);
boost::json::value written(bool value);
boost::json::value written(NetworkMode value);
boost::json::value written(MountMode value);
boost::json::value written(double value);
boost::json::value written(std::int64_t value);

// The shortest text that is read back as the same number.
std::string number_text(double value);

// Whether a schema tells the default: not where it is empty or follows from another field.
template <typename Rule>
inline constexpr bool kTellsDefault =
    std::is_same_v<Rule, BoxPath> || std::is_same_v<Rule, Flag> || std::is_same_v<Rule, Network> ||
    std::is_same_v<Rule, Mode> || std::is_same_v<Rule, Processors> || std::is_same_v<Rule, Whole>;

template <typename Rule, typename T>
bool are_same(const Rule&, const T& a, const T& b) {
  return a == b;
}
bool are_same(ImageName, const std::string& a, const std::string& b);

// One line of the table: a member of Part, which is BoxSettings, Command or BoxRequest itself.
template <typename Part, typename T, typename Rule>
struct Field {
  std::string_view name;  // in JSON
  T Part::*member;
  Rule rule;
  Uses uses;
  std::string_view option;  // of the command line; empty: there is none
  std::string_view help;    // empty: the name says it

  static constexpr bool kOfBox = std::is_same_v<Part, BoxSettings>;
  static constexpr bool kOfSession = std::is_same_v<Part, BoxRequest>;

  // The value of it in a request, which may be const.
  template <typename Request>
  auto& in(Request& request) const {
    if constexpr (kOfBox) {
      return request.box.*member;
    } else if constexpr (kOfSession) {
      return request.*member;
    } else {
      return request.command.*member;
    }
  }
};

template <typename Part, typename T, typename Rule>
constexpr Field<Part, T, Rule> field(std::string_view name, T Part::*member, Rule rule,
                                     Uses uses = {}, std::string_view option = {},
                                     std::string_view help = {}) {
  return {name, member, rule, uses, option, help};
}

// In the order in which faults are reported.
inline constexpr std::tuple kBoxFields{
    field("cmd", &Command::cmd, Trimmed{}, {}, {}, "A shell script of up to 16 MiB."),
    field("workdir", &Command::workdir, Workdir{}, {}, "--workdir",
          "Absolute; mount_path when absent."),
    field("timeout_sec", &Command::timeout_sec, Whole{1, kMaxTimeoutSec, "must be greater than 0"},
          {.profile = true}, "--timeout"),
    field("network", &BoxSettings::network, Network{},
          {.profile = true, .session = true, .kind = true}, "--network"),
    field("session_id", &BoxRequest::session_id, SessionName{}),
    field("env", &Command::env, Environment{}, {}, "--env"),
    field("image", &BoxSettings::image, ImageName{},
          {.profile = true, .session = true, .kind = true}, "--image"),
    field("host_path", &BoxSettings::host_path, HostPath{}, {.session = true}, "--workspace",
          "A directory of the host, shown at mount_path."),
    field("host_path_mode", &BoxSettings::host_path_mode, Mode{},
          {.profile = true, .session = true}),
    field("mount_path", &BoxSettings::mount_path, BoxPath{}, {.session = true, .kind = true}),
    field("extra_mounts", &BoxSettings::extra_mounts, Mounts{}, {}, "--mount"),
    field("persistent", &BoxSettings::persistent, Flag{}, {.session = true}),
    field("cpus", &BoxSettings::cpus, Processors{},
          {.profile = true, .session = true, .kind = true}, "--cpus"),
    field("memory_mb", &BoxSettings::memory_mb,
          Whole{kMinMemoryMb, kMaxMegabytes, "must be at least 32"},
          {.profile = true, .session = true, .kind = true}, "--memory"),
    field("pids_limit", &BoxSettings::pids_limit, Whole{1, kMaxPidsLimit, "must be at least 1"},
          {.profile = true, .session = true, .kind = true}, "--pids"),
    field("read_only_rootfs", &BoxSettings::read_only_rootfs, Flag{},
          {.profile = true, .session = true, .kind = true}),
    field("workspace_quota_mb", &BoxSettings::workspace_quota_mb,
          Whole{0, kMaxMegabytes, "must be greater than or equal to 0"},
          {.profile = true, .session = true}),
};

template <typename Visit>
void for_each_field(Visit visit) {
  std::apply([&](const auto&... fields) { (visit(fields), ...); }, kBoxFields);
}

// Those of the box alone.
template <typename Visit>
void for_each_setting(Visit visit) {
  for_each_field([&](const auto& field) {
    if constexpr (std::decay_t<decltype(field)>::kOfBox) visit(field);
  });
}

// The first setting of a session that differs, and what `existing` has.
struct Difference {
  std::string_view name;
  boost::json::value existing;
  bool operator==(const Difference&) const = default;
};
std::optional<Difference> first_difference(const BoxSettings& existing, const BoxSettings& wanted);

// The settings that boxes differ in which show nothing of the host; the others at their defaults.
BoxSettings kind_of(const BoxSettings& settings);

// What a session shows of its box.
boost::json::object to_json(const BoxSettings& settings);
BoxSettings read_shown_settings(ObjectReader& reader);

// "properties" of a JSON schema: of a request, with defaults; of what is shown of a session.
boost::json::object request_schema();
boost::json::object session_schema();

}  // namespace caisson::model
