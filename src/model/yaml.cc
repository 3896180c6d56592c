#include "model/yaml.h"

#include <yaml-cpp/yaml.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "base/str.h"
#include "base/text.h"
#include "model/object_reader.h"

namespace caisson::model {

namespace {
namespace json = boost::json;

constexpr std::size_t kMaxNodes = 100'000;
constexpr std::size_t kMaxDepth = 64;

constexpr std::string_view kDigits = "0123456789";

bool consists_of(std::string_view text, std::string_view characters) {
  return !text.empty() && text.find_first_not_of(characters) == std::string_view::npos;
}

std::optional<json::value> integer_of(std::string_view text) {
  int base = 10;
  std::string_view allowed = kDigits;
  std::string digits(text);
  if (text.starts_with("0x") || text.starts_with("0o")) {
    base = text[1] == 'x' ? 16 : 8;
    allowed = base == 16 ? "0123456789abcdefABCDEF" : "01234567";
    digits.erase(0, 2);
  } else if (text.starts_with('+')) {
    digits.erase(0, 1);
  }
  std::string_view magnitude = digits;
  if (base == 10 && text.starts_with('-')) magnitude.remove_prefix(1);
  if (!consists_of(magnitude, allowed)) return std::nullopt;
  std::int64_t value = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (error != std::errc()) return std::nullopt;
  return json::value(value);
}

std::optional<json::value> number_of(std::string_view text) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const std::string lower = to_lower(text);
  if (lower == ".nan") return json::value(std::nan(""));
  if (lower == ".inf" || lower == "+.inf") return json::value(infinity);
  if (lower == "-.inf") return json::value(-infinity);
  if (!consists_of(text, "0123456789+-.eE")) return std::nullopt;
  const std::optional<double> number = to_number(json::value(text));
  return number ? std::optional<json::value>(*number) : std::nullopt;
}

json::value plain_scalar(const std::string& text) {
  if (text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL") {
    return nullptr;
  }
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  if (const auto integer = integer_of(text)) return *integer;
  if (const auto number = number_of(text)) return *number;
  return json::value(text);
}

class Converter {
 public:
  Converter(const std::string& file_name, PlainScalars scalars)
      : file_name_(file_name), scalars_(scalars) {}

  json::value convert(const YAML::Node& node, std::size_t depth = 0) {
    if (depth > kMaxDepth) fail(node.Mark(), "nested too deeply");
    if (++nodes_ > kMaxNodes) fail(node.Mark(), "too large once its aliases are expanded");
    switch (node.Type()) {
      case YAML::NodeType::Undefined:
      case YAML::NodeType::Null:
        return nullptr;
      case YAML::NodeType::Scalar:
        return scalar(node);
      case YAML::NodeType::Sequence:
        return sequence(node, depth);
      case YAML::NodeType::Map:
        return map(node, depth);
    }
    return nullptr;
  }

  [[noreturn]] void fail(const YAML::Mark& mark, std::string_view fault) const {
    if (mark.is_null()) refuse(str(file_name_, ": ", fault));
    refuse(str(file_name_, ':', mark.line + 1, ':', mark.column + 1, ": ", fault));
  }

 private:
  // The tag is "?" for a plain scalar and "!" for a quoted one.
  json::value scalar(const YAML::Node& node) const {
    const std::string& tag = node.Tag();
    const bool plain = tag == "?" || tag.empty();
    if (plain && scalars_ == PlainScalars::core_schema) return plain_scalar(node.Scalar());
    if (plain) return json::value(node.Scalar());
    if (tag == "!" || tag == "tag:yaml.org,2002:str") return json::value(node.Scalar());
    fail(node.Mark(), str("unsupported tag \"", printable(tag), "\""));
  }

  json::value sequence(const YAML::Node& node, std::size_t depth) {
    json::array array;
    for (const YAML::Node& element : node) array.push_back(convert(element, depth + 1));
    return array;
  }

  json::value map(const YAML::Node& node, std::size_t depth) {
    json::object object;
    for (const auto& entry : node) {
      if (!entry.first.IsScalar()) fail(entry.first.Mark(), "a key must be a text");
      const std::string& key = entry.first.Scalar();
      if (key == "<<") fail(entry.first.Mark(), "merge keys are not supported");
      if (object.contains(key)) {
        fail(entry.first.Mark(), str("duplicate key \"", printable(key), "\""));
      }
      object.emplace(key, convert(entry.second, depth + 1));
    }
    return object;
  }

  const std::string& file_name_;
  PlainScalars scalars_;
  std::size_t nodes_ = 0;
};
}  // namespace

json::value parse_yaml(std::string_view text, const std::string& file_name, PlainScalars scalars) {
  Converter converter(file_name, scalars);
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(std::string(text));
    if (documents.empty()) return nullptr;
    if (documents.size() > 1) {
      converter.fail(documents[1].Mark(), "only one document is allowed");
    }
    return converter.convert(documents.front());
  } catch (const YAML::Exception& error) {
    converter.fail(error.mark, error.msg);
  }
}

}  // namespace caisson::model
