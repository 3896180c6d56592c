#include "model/box_fields.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/value_from.hpp>
#include <charconv>
#include <cmath>

#include "base/str.h"
#include "base/text.h"
#include "model/field_rules.h"
#include "model/image_name.h"

namespace caisson::model {

namespace json = boost::json;

std::string read(SessionName, ObjectReader& reader, std::string_view name, const std::string&) {
  std::string id(trim(reader.required<std::string>(name)));
  if (id.empty()) refuse(str(name, " must not be empty"));
  check_text(id, name);
  return id;
}

std::string read(Trimmed, ObjectReader& reader, std::string_view name,
                 const std::string& fallback) {
  return std::string(trim(reader.optional(name, fallback)));
}

std::string read(ImageName, ObjectReader& reader, std::string_view name,
                 const std::string& fallback) {
  return reader.optional(name, fallback);
}

std::string read(BoxPath, ObjectReader& reader, std::string_view name,
                 const std::string& fallback) {
  return box_path(reader.optional(name, fallback), name);
}

// One that is absent, null or "" follows a mount path that was given.
std::string read(Workdir, ObjectReader& reader, std::string_view name,
                 const std::string& fallback) {
  const json::value* workdir = reader.find(name);
  const json::value* mount_path = reader.find("mount_path");
  const bool unset = workdir == nullptr || workdir->is_null() ||
                     (workdir->is_string() && workdir->get_string().empty());
  const bool mounted =
      mount_path != nullptr && mount_path->is_string() && !trim(mount_path->get_string()).empty();
  // A fault in it is then one of the field that the caller sent.
  if (unset && mounted) return box_path(reader.required<std::string>("mount_path"), "mount_path");
  return box_path(reader.optional(name, fallback), name);
}

std::optional<std::string> read(HostPath, ObjectReader& reader, std::string_view name,
                                const std::optional<std::string>& fallback) {
  if (!reader.has(name)) return fallback;
  const std::optional<std::string> path = reader.nullable<std::string>(name);
  if (!path) return std::nullopt;
  return host_path(*path);
}

Variables read(Environment, ObjectReader& reader, std::string_view name,
               const Variables& fallback) {
  Variables variables = reader.optional(name, fallback);
  check_environment(variables, name);
  return variables;
}

std::vector<MountSpec> read(Mounts, ObjectReader& reader, std::string_view name,
                            const std::vector<MountSpec>&) {
  std::vector<MountSpec> mounts;
  for (const ObjectReader::Element& element : reader.elements(name)) {
    mounts.push_back(read_mount_spec(*element.value, element.path));
  }
  return mounts;
}

bool read(Flag, ObjectReader& reader, std::string_view name, bool fallback) {
  return reader.optional(name, fallback);
}

NetworkMode read(Network, ObjectReader& reader, std::string_view name, NetworkMode fallback) {
  return reader.choice(name, fallback, {NetworkMode::off, NetworkMode::on});
}

MountMode read(Mode, ObjectReader& reader, std::string_view name, MountMode fallback) {
  return reader.choice(name, fallback, {MountMode::none, MountMode::ro, MountMode::rw});
}

double read(Processors, ObjectReader& reader, std::string_view name, double fallback) {
  const double cpus = reader.optional(name, fallback);
  if (!std::isfinite(cpus)) refuse(str(name, " must be a finite number"));
  if (cpus <= 0) refuse(str(name, " must be greater than 0"));
  return std::min(cpus, kMaxCpus);
}

std::int64_t read(const Whole& rule, ObjectReader& reader, std::string_view name,
                  std::int64_t fallback) {
  const std::int64_t value = reader.optional(name, fallback);
  if (value < rule.least) refuse(str(name, ' ', rule.refusal));
  return std::min(value, rule.most);
}

json::object schema(SessionName) {
  return {{"type", "string"}};
}

json::object schema(Trimmed) {
  return {{"type", "string"}};
}

json::object schema(ImageName) {
  return {{"type", "string"}};
}

json::object schema(BoxPath) {
  return {{"type", "string"}};
}

json::object schema(Workdir) {
  return {{"type", "string"}};
}

json::object schema(HostPath) {
  return {{"type", json::array{"string", "null"}}};
}

json::object schema(Environment) {
  return {{"type", "object"}, {"additionalProperties", json::object{{"type", "string"}}}};
}

json::object schema(Mounts) {
  return {{"type", "array"}, {"items", json::object{{"$ref", "#/components/schemas/Mount"}}}};
}

json::object schema(Flag) {
  return {{"type", "boolean"}};
}

json::object schema(Network) {
  return {{"enum", json::array{"off", "on"}}};
}

json::object schema(Mode) {
  return {{"enum", json::array{"none", "ro", "rw"}}};
}

json::object schema(Processors) {
  return {{"type", "number"}, {"exclusiveMinimum", 0}};
}

json::object schema(const Whole& rule) {
  return {{"type", "integer"}, {"minimum", rule.least}};
}

json::value written(const std::string& value) {
  return json::value_from(value);
}

json::value written(const std::optional<std::string>& value) {
  return json::value_from(value);
}

json::value written(const Variables& value) {
  return json::value_from(value);
}

json::value written(const std::vector<MountSpec>& value) {
  json::array mounts;
  for (const MountSpec& mount : value) mounts.push_back(to_json(mount));
  return mounts;
}

json::value written(bool value) {
  return value;
}

json::value written(NetworkMode value) {
  return json::value_from(to_string(value));
}

json::value written(MountMode value) {
  return json::value_from(to_string(value));
}

json::value written(double value) {
  return value;
}

json::value written(std::int64_t value) {
  return value;
}

std::string number_text(double value) {
  char buffer[32];
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, value);
  return {buffer, end};
}

bool are_same(ImageName, const std::string& a, const std::string& b) {
  return is_same_image(a, b);
}

std::optional<Difference> first_difference(const BoxSettings& existing, const BoxSettings& wanted) {
  std::optional<Difference> first;
  for_each_setting([&](const auto& field) {
    if (first || !field.uses.session) return;
    const auto& has = existing.*(field.member);
    if (!are_same(field.rule, has, wanted.*(field.member))) first = {field.name, written(has)};
  });
  return first;
}

BoxSettings kind_of(const BoxSettings& settings) {
  BoxSettings kind;
  for_each_setting([&](const auto& field) {
    if (!field.uses.kind) return;
    auto& value = kind.*(field.member);
    if (!are_same(field.rule, value, settings.*(field.member))) value = settings.*(field.member);
  });
  return kind;
}

json::object to_json(const BoxSettings& settings) {
  json::object object;
  for_each_setting([&](const auto& field) {
    if (field.uses.session) object[field.name] = written(settings.*(field.member));
  });
  return object;
}

BoxSettings read_shown_settings(ObjectReader& reader) {
  BoxSettings settings;
  for_each_setting([&](const auto& field) {
    if (!field.uses.session) return;
    auto& value = settings.*(field.member);
    value = read(field.rule, reader, field.name, value);
  });
  return settings;
}

json::object request_schema() {
  const BoxRequest defaults;
  json::object properties;
  for_each_field([&](const auto& field) {
    if constexpr (std::decay_t<decltype(field)>::kOfSession) {
      return;  // it is in the path
    } else {
      json::object property = schema(field.rule);
      if (!field.help.empty()) property["description"] = field.help;
      if constexpr (kTellsDefault<std::decay_t<decltype(field.rule)>>) {
        property["default"] = written(field.in(defaults));
      }
      properties[field.name] = std::move(property);
    }
  });
  return properties;
}

json::object session_schema() {
  json::object properties;
  for_each_setting([&](const auto& field) {
    if (field.uses.session) properties[field.name] = schema(field.rule);
  });
  return properties;
}

}  // namespace caisson::model
