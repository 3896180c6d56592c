#include "model/box_request.h"

#include "base/path.h"
#include "base/str.h"
#include "base/text.h"
#include "model/box_fields.h"
#include "model/object_reader.h"

namespace caisson::model {

namespace json = boost::json;

namespace {

// Of mounts that have been read.
void check_normal_mounts(ObjectReader& reader) {
  for (const ObjectReader::Element& element : reader.elements("extra_mounts")) {
    const std::string_view path = trim(element.value->at("mount_path").as_string());
    if (normalise_path(path) != path) refuse(str(element.path, ".mount_path must be normalized"));
  }
}

}  // namespace

BoxRequest read_box_request(const json::value& value, Leniency leniency) {
  ObjectReader reader(value, "");
  BoxRequest request;
  for_each_field([&](const auto& field) {
    auto& member = field.in(request);
    member = read(field.rule, reader, field.name, member);
  });
  request.mounting = reader.has("extra_mounts") ? Mounting::fixed : Mounting::unsaid;
  const bool mounted = request.box.host_path && request.box.host_path_mode != MountMode::none;
  if (mounted && !is_within(request.command.workdir, request.box.mount_path)) {
    refuse("workdir must stay under mount_path when host_path is provided");
  }
  if (leniency == Leniency::strict) {
    check_normal_mounts(reader);
    reader.reject_unknown_fields();
  }
  return request;
}

json::object to_json(const BoxRequest& request) {
  json::object object;
  for_each_field([&](const auto& field) { object[field.name] = written(field.in(request)); });
  const bool unsaid = request.mounting == Mounting::unsaid && request.box.extra_mounts.empty();
  if (unsaid) object.erase("extra_mounts");
  return object;
}

// The JSON parser may miss the last bit of a fraction. As text it is exact, and the reader takes
// it.
json::object to_exact_json(const BoxSettings& settings) {
  json::object object;
  for_each_setting(
      [&](const auto& field) { object[field.name] = written(settings.*(field.member)); });
  object["cpus"] = number_text(settings.cpus);
  return object;
}

BoxSettings read_box_settings(const json::value& value) {
  ObjectReader reader(value, "");
  BoxSettings settings;
  for_each_setting([&](const auto& field) {
    auto& member = settings.*(field.member);
    member = read(field.rule, reader, field.name, member);
  });
  return settings;
}

}  // namespace caisson::model
