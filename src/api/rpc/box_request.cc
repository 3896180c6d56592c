#include "api/rpc/box_request.h"

#include <algorithm>
#include <boost/json/value.hpp>

#include "base/text.h"
#include "base/unicode.h"
#include "model/object_reader.h"

namespace caisson::api::rpc {

namespace json = boost::json;

namespace {

constexpr const char* kSkillName = "skill_name";
constexpr std::size_t kMaxSkillNameLength = 64;

model::Leniency leniency_of(const json::object& data, bool of_tenant) {
  const bool older = !of_tenant || data.contains(kSkillName);
  return older ? model::Leniency::lenient : model::Leniency::strict;
}

std::optional<std::string> read_skill_name(const json::value& data) {
  model::ObjectReader reader(data, "");
  const std::optional<std::string> text = reader.nullable<std::string>(kSkillName);
  const std::string name(trim(text.value_or("")));
  if (name.empty()) return std::nullopt;
  const std::u32string characters = to_utf32(name);
  const bool fits = std::ranges::all_of(
      characters, [](char32_t c) { return is_alphanumeric(c) || c == U'-' || c == U'_'; });
  const bool named = std::ranges::any_of(characters, is_alphanumeric);
  if (!fits || !named || characters.size() > kMaxSkillNameLength) {
    model::refuse("skill_name can only contain up to 64 letters, numbers, hyphens and underscores");
  }
  return name;
}

}  // namespace

HostRequest read_host_request(const service::Policy& policy, const json::object& data,
                              bool of_tenant) {
  const service::Caller host{.leniency = leniency_of(data, of_tenant)};
  HostRequest request{.asked = policy.apply(host, data).request};
  if (data.contains(kSkillName)) {
    const json::value value = data;
    request.skill_name = read_skill_name(value);
    request.asked.mounting = model::Mounting::follows;
  }
  return request;
}

}  // namespace caisson::api::rpc
