#include "model/object_reader.h"

#include <boost/json/array.hpp>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/str.h"
#include "base/text.h"

namespace caisson::model {

namespace {
namespace json = boost::json;

using Integers = std::numeric_limits<std::int64_t>;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Removes underscores that stand between two digits; nullopt when one stands elsewhere.
std::optional<std::string> without_underscores(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      plain.push_back(text[i]);
      continue;
    }
    const bool between =
        i > 0 && i + 1 < text.size() && is_digit(text[i - 1]) && is_digit(text[i + 1]);
    if (!between) return std::nullopt;
  }
  return plain;
}

std::optional<std::int64_t> integer_from_text(std::string_view text) {
  text = trim(text);
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  if (const std::size_t point = text.find('.'); point != std::string_view::npos) {
    if (text.find_first_not_of('0', point + 1) != std::string_view::npos) return std::nullopt;
    text = text.substr(0, point);
  }
  const std::optional<std::string> plain = without_underscores(text);
  if (!plain || plain->empty()) return std::nullopt;
  if (plain->find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  const std::string digits = negative ? str('-', *plain) : *plain;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error == std::errc::result_out_of_range) return negative ? Integers::min() : Integers::max();
  return value;
}

std::optional<std::int64_t> integer_from_number(double number) {
  if (!std::isfinite(number) || std::trunc(number) != number) return std::nullopt;
  if (number >= 0x1p63) return Integers::max();
  if (number < -0x1p63) return Integers::min();
  return static_cast<std::int64_t>(number);
}

std::optional<double> number_from_text(std::string_view text) {
  text = trim(text);
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  const std::optional<std::string> plain = without_underscores(text);
  if (!plain || plain->empty()) return std::nullopt;
  // from_chars alone would take a second sign and "nan(...)".
  const char first = plain->front();
  if (first == '-' || first == '+' || plain->find('(') != std::string::npos) return std::nullopt;
  double value = 0;
  const char* end_of_text = plain->data() + plain->size();
  const auto [end, error] = std::from_chars(plain->data(), end_of_text, value);
  if (error != std::errc() || end != end_of_text) return std::nullopt;
  return negative ? -value : value;
}

std::optional<bool> bool_from_text(std::string_view text) {
  const std::string word = to_lower(text);
  for (const std::string_view yes : {"true", "t", "yes", "y", "on", "1"}) {
    if (word == yes) return true;
  }
  for (const std::string_view no : {"false", "f", "no", "n", "off", "0"}) {
    if (word == no) return false;
  }
  return std::nullopt;
}

const json::object& object_of(const json::value& value, const std::string& path) {
  if (const json::object* object = value.if_object()) return *object;
  refuse(path.empty() ? "must be an object" : str(path, ": must be an object"));
}

std::string text_of(const json::value& value, const std::string& path) {
  const json::string* text = value.if_string();
  if (text == nullptr) refuse(str(path, ": must be a string"));
  const std::string_view view(text->data(), text->size());
  if (view.find('\0') != std::string_view::npos) {
    refuse(str(path, ": must not contain a NUL character"));
  }
  return std::string(view);
}
}  // namespace

void refuse(const std::string& sentence) {
  throw Error(ErrorCode::validation_error, sentence);
}

std::optional<std::int64_t> to_integer(const json::value& value) {
  if (const std::int64_t* integer = value.if_int64()) return *integer;
  if (value.is_uint64())
    return Integers::max();  // the parser keeps uint64 for what int64 cannot hold
  if (const double* number = value.if_double()) return integer_from_number(*number);
  if (const bool* flag = value.if_bool()) return *flag ? 1 : 0;
  if (const json::string* text = value.if_string()) return integer_from_text(*text);
  return std::nullopt;
}

std::optional<double> to_number(const json::value& value) {
  if (const double* number = value.if_double()) return *number;
  if (const std::int64_t* integer = value.if_int64()) return static_cast<double>(*integer);
  if (const std::uint64_t* integer = value.if_uint64()) return static_cast<double>(*integer);
  if (const bool* flag = value.if_bool()) return *flag ? 1.0 : 0.0;
  if (const json::string* text = value.if_string()) return number_from_text(*text);
  return std::nullopt;
}

std::optional<bool> to_bool(const json::value& value) {
  if (const bool* flag = value.if_bool()) return *flag;
  if (const json::string* text = value.if_string()) return bool_from_text(*text);
  const std::optional<double> number = to_number(value);
  if (number == 1.0) return true;
  if (number == 0.0) return false;
  return std::nullopt;
}

ObjectReader::ObjectReader(const json::value& value, std::string path)
    : object_(&object_of(value, path)), path_(std::move(path)) {}

const json::value* ObjectReader::find(std::string_view name) {
  known_.emplace(name);
  return object_->if_contains(name);
}

bool ObjectReader::has_value(std::string_view name) {
  const json::value* value = find(name);
  return value != nullptr && !value->is_null();
}

const json::value& ObjectReader::get(std::string_view name) {
  const json::value* value = find(name);
  if (value == nullptr) fail(name, "is required");
  return *value;
}

template <>
bool ObjectReader::required<bool>(std::string_view name, Coercion coercion) {
  const json::value& value = get(name);
  const std::optional<bool> flag = to_bool(value);
  if (!flag || (coercion == Coercion::strict && !value.is_bool())) {
    fail(name, "must be true or false");
  }
  return *flag;
}

template <>
std::int64_t ObjectReader::required<std::int64_t>(std::string_view name, Coercion coercion) {
  const json::value& value = get(name);
  const std::optional<std::int64_t> integer = to_integer(value);
  if (!integer || (coercion == Coercion::strict && !value.is_int64())) {
    fail(name, "must be an integer");
  }
  return *integer;
}

template <>
double ObjectReader::required<double>(std::string_view name, Coercion coercion) {
  const json::value& value = get(name);
  const std::optional<double> number = to_number(value);
  if (!number || (coercion == Coercion::strict && !value.is_number()))
    fail(name, "must be a number");
  return *number;
}

template <>
std::string ObjectReader::required<std::string>(std::string_view name, Coercion) {
  return text_of(get(name), path_of(name));
}

template <>
ObjectReader::Strings ObjectReader::required<ObjectReader::Strings>(std::string_view name,
                                                                    Coercion) {
  get(name);
  Strings texts;
  for (const Element& element : elements(name)) {
    texts.push_back(text_of(*element.value, element.path));
  }
  return texts;
}

template <>
ObjectReader::StringMap ObjectReader::required<ObjectReader::StringMap>(std::string_view name,
                                                                        Coercion) {
  const std::string path = path_of(name);
  StringMap map;
  for (const auto& [key, value] : object_of(get(name), path)) {
    const std::string entry = str(path, '.', printable(key));
    if (key.find('\0') != json::string_view::npos) {
      refuse(str(entry, ": must not contain a NUL character"));
    }
    map.emplace(key, text_of(value, entry));
  }
  return map;
}

std::string ObjectReader::required_raw_text(std::string_view name) {
  const json::string* text = get(name).if_string();
  if (text == nullptr) fail(name, "must be a string");
  return std::string(text->data(), text->size());
}

ObjectReader ObjectReader::section(std::string_view name) {
  static const json::value empty = json::object();
  return ObjectReader(has_value(name) ? *find(name) : empty, path_of(name));
}

std::vector<ObjectReader::Element> ObjectReader::elements(std::string_view name) {
  std::vector<Element> found;
  const json::value* value = find(name);
  if (value == nullptr) return found;
  const json::array* array = value->if_array();
  if (array == nullptr) fail(name, "must be a list");
  for (const json::value& element : *array) {
    found.push_back({&element, str(path_of(name), '[', found.size(), ']')});
  }
  return found;
}

std::vector<std::string> ObjectReader::unknown_fields() const {
  std::vector<std::string> unknown;
  for (const auto& [key, value] : *object_) {
    if (!known_.contains(std::string_view(key))) unknown.push_back(path_of(printable(key)));
  }
  return unknown;
}

void ObjectReader::reject_unknown_fields() const {
  const std::vector<std::string> unknown = unknown_fields();
  if (!unknown.empty()) refuse(str(unknown.front(), ": unknown field"));
}

std::string ObjectReader::path_of(std::string_view name) const {
  return path_.empty() ? std::string(name) : str(path_, '.', name);
}

void ObjectReader::fail(std::string_view name, std::string_view fault) const {
  refuse(str(path_of(name), ": ", fault));
}

void ObjectReader::fail_choice(std::string_view name, const Strings& names) const {
  fail(name, str("must be one of \"", join(names, "\", \""), "\""));
}

}  // namespace caisson::model
