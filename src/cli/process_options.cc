#include "cli/process_options.h"

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <chrono>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/str.h"
#include "base/text.h"
#include "base/utf8.h"
#include "cli/exec_options.h"
#include "model/managed_process.h"

namespace caisson::cli {

namespace {

namespace json = boost::json;

[[noreturn]] void refuse(std::string_view option, std::string_view text, std::string_view fault) {
  throw Error(ErrorCode::validation_error, str(option, ": \"", printable(text), "\" ", fault));
}

// The sentences of the validation speak of fields; here they are known as options.
Error with_option(const Error& error) {
  static constexpr std::pair<std::string_view, std::string_view> kOptions[] = {
      {"cwd", "--workdir"},           {"env", "--env"},         {"memory_mb", "--memory"},
      {"journal_bytes", "--journal"}, {"restart", "--restart"},
  };
  const std::string_view sentence = error.what();
  for (const auto& [field, option] : kOptions) {
    if (sentence.starts_with(field)) return {error.code(), str(option, ": ", sentence)};
  }
  return error;
}

// "10m" in seconds; nullopt for what is no age.
std::optional<std::chrono::seconds> find_age(std::string_view text) {
  static constexpr std::pair<char, std::int64_t> kUnits[] = {
      {'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
  constexpr std::int64_t kMost = 1'000'000'000;
  if (text.empty()) return std::nullopt;
  const auto number = parse_integer(text.substr(0, text.size() - 1));
  for (const auto& [letter, seconds] : kUnits) {
    if (text.back() == letter && number && *number >= 0 && *number <= kMost) {
      return std::chrono::seconds(*number * seconds);
    }
  }
  return std::nullopt;
}

}  // namespace

json::object plan_process(const ProcessOptions& options, const std::vector<std::string>& command,
                          const Environment& environment) {
  json::object process;
  if (options.id) process["process_id"] = *options.id;
  process["command"] = command.front();
  process["args"] = json::array(command.begin() + 1, command.end());
  json::object env;
  for (const std::string& text : options.env) {
    if (const auto pair = parse_env(text, environment)) env[pair->first] = pair->second;
  }
  process["env"] = std::move(env);
  if (options.workdir) process["cwd"] = *options.workdir;
  if (options.memory) process["memory_mb"] = parse_megabytes(*options.memory);
  if (options.restart) process["restart"] = *options.restart;
  if (options.journal) process["journal_bytes"] = parse_bytes("--journal", *options.journal);
  if (options.hold) process["overflow"] = to_string(model::OutputPolicy::hold);
  if (options.tty) process["tty"] = true;
  const std::string text = json::serialize(process);
  if (!is_utf8(text)) {
    throw Error(ErrorCode::validation_error,
                "the command and its variables must be UTF-8 to go to a session");
  }
  try {
    model::read_managed_process_spec(process);
  } catch (const Error& error) {
    throw with_option(error);
  }
  return process;
}

std::int64_t parse_bytes(std::string_view option, std::string_view text) {
  static constexpr std::pair<char, int> kUnits[] = {{'k', 10}, {'m', 20}, {'g', 30}};
  std::string digits = to_lower(text);
  int shift = 0;
  for (const auto& [letter, bits] : kUnits) {
    if (digits.ends_with(letter)) shift = bits;
  }
  if (shift > 0) digits.pop_back();
  const auto number = parse_integer(digits);
  if (!number || *number < 0) refuse(option, text, "is not a size, such as 4194304, 512K or 16M");
  if (*number > std::numeric_limits<std::int64_t>::max() >> shift)
    refuse(option, text, "is too large");
  return *number << shift;
}

std::uint64_t parse_offset(std::string_view option, std::string_view text) {
  const auto number = parse_integer(text);
  if (!number || *number < 0) refuse(option, text, "is not the offset of a byte, 0 or above");
  return static_cast<std::uint64_t>(*number);
}

Since parse_since(std::string_view text, model::Timestamp now) {
  constexpr std::string_view kOption = "--since";
  if (parse_integer(text)) return {.offset = parse_offset(kOption, text), .time = {}};
  if (const auto age = find_age(text)) return {.offset = {}, .time = now - *age};
  const auto parsed = model::parse_timestamp(text);
  if (!parsed) {
    refuse(kOption, text,
           "is neither an offset nor an age, as 10m, nor a time, as "
           "2026-01-31T12:00:00Z");
  }
  if (!parsed->has_zone) refuse(kOption, text, "needs its zone: Z behind it for UTC, or as +02:00");
  return {.offset = {}, .time = parsed->time};
}

}  // namespace caisson::cli
