#pragma once
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace caisson::model {

// How much a reader forgives. Lax takes what LangBot's models take: 999.0, " 1_000 " and true are
// integers, "yes" is a boolean. Strict takes only the JSON type itself, and true is no number.
enum class Coercion { lax, strict };

// Throws validation_error with exactly this sentence: for sentences that clients match.
[[noreturn]] void refuse(const std::string& sentence);

// The lax conversions by themselves: nullopt when the value is none. Integers beyond 64 bits become
// the nearest 64-bit integer; numbers may come out non-finite.
std::optional<std::int64_t> to_integer(const boost::json::value& value);
std::optional<double> to_number(const boost::json::value& value);
std::optional<bool> to_bool(const boost::json::value& value);

// Turns one JSON object into a value, field by field. Every error is a validation_error whose
// message begins with the path of the field: "box.native.allow_missing: must be a list". The JSON
// must outlive the reader.
//
// T is one of bool, std::int64_t, double, std::string, Strings and StringMap. Strings and names
// that contain a NUL are refused: the kernel would see another, shorter text than the one that was
// judged.
class ObjectReader {
 public:
  using Strings = std::vector<std::string>;
  using StringMap = std::map<std::string, std::string>;

  // An empty path is the root: its fields are named without a prefix.
  ObjectReader(const boost::json::value& value, std::string path);
  ObjectReader(boost::json::value&&, std::string) = delete;

  // Absent is an error; so is null.
  template <typename T>
  T required(std::string_view name, Coercion coercion = Coercion::lax);

  // Absent gives the fallback; null is an error.
  template <typename T>
  T optional(std::string_view name, T fallback, Coercion coercion = Coercion::lax) {
    return has(name) ? required<T>(name, coercion) : fallback;
  }

  // Absent and null give nullopt.
  template <typename T>
  std::optional<T> nullable(std::string_view name, Coercion coercion = Coercion::lax) {
    return has_value(name) ? std::optional<T>(required<T>(name, coercion)) : std::nullopt;
  }

  // A string as it is, NUL included: for what a command wrote.
  std::string required_raw_text(std::string_view name);

  // An enumeration by the exact text of its to_string().
  template <typename Enum>
  Enum choice(std::string_view name, Enum fallback, std::initializer_list<Enum> choices) {
    if (!has(name)) return fallback;
    const std::string text = required<std::string>(name);
    Strings names;
    for (const Enum candidate : choices) {
      if (to_string(candidate) == text) return candidate;
      names.emplace_back(to_string(candidate));
    }
    fail_choice(name, names);
  }

  // A nested object; absent and null read as an empty one, as an empty section of a file does.
  ObjectReader section(std::string_view name);

  // The elements of a list with the path of each ("extra_mounts[0]"); absent gives none.
  struct Element {
    const boost::json::value* value;
    std::string path;
  };
  std::vector<Element> elements(std::string_view name);

  // The field as it is; null when absent. Counts as known from then on.
  const boost::json::value* find(std::string_view name);
  bool has(std::string_view name) { return find(name) != nullptr; }
  bool has_value(std::string_view name);  // present and not null

  // Fields nobody asked for, by path. Call last.
  std::vector<std::string> unknown_fields() const;
  void reject_unknown_fields() const;  // "limits.cpuz: unknown field"

  const std::string& path() const { return path_; }
  std::string path_of(std::string_view name) const;  // "box.limits.max_sessions"
  [[noreturn]] void fail(std::string_view name, std::string_view fault) const;

 private:
  const boost::json::value& get(std::string_view name);
  [[noreturn]] void fail_choice(std::string_view name, const Strings& names) const;

  const boost::json::object* object_;
  std::string path_;
  std::set<std::string, std::less<>> known_;
};

template <>
bool ObjectReader::required<bool>(std::string_view name, Coercion coercion);
template <>
std::int64_t ObjectReader::required<std::int64_t>(std::string_view name, Coercion coercion);
template <>
double ObjectReader::required<double>(std::string_view name, Coercion coercion);
template <>
std::string ObjectReader::required<std::string>(std::string_view name, Coercion coercion);
template <>
ObjectReader::Strings ObjectReader::required<ObjectReader::Strings>(std::string_view name,
                                                                    Coercion coercion);
template <>
ObjectReader::StringMap ObjectReader::required<ObjectReader::StringMap>(std::string_view name,
                                                                        Coercion coercion);

}  // namespace caisson::model
