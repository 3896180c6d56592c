#include "cli/relay_message.h"

#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <exception>
#include <utility>

#include "base/error.h"
#include "base/str.h"

namespace caisson::cli {

namespace {

namespace json = boost::json;

constexpr std::size_t kHeader = 9;  // a stream and a number in eight bytes, the highest first

std::uint64_t number_in(std::string_view bytes) {
  std::uint64_t number = 0;
  for (const char c : bytes) number = number << 8 | static_cast<unsigned char>(c);
  return number;
}

std::uint64_t number_of(const json::object& object, std::string_view name) {
  return object.at(name).to_number<std::uint64_t>();
}

std::optional<int> find_number(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  if (value == nullptr || value->is_null()) return std::nullopt;
  return value->to_number<int>();
}

RelayExit read_exit(const json::object& object) {
  RelayExit exit{.exit_code = find_number(object, "exit_code"),
                 .signal = find_number(object, "signal")};
  if (const json::value* oom = object.if_contains("oom")) exit.oom = oom->as_bool();
  if (const json::value* reason = object.if_contains("reason")) exit.reason = reason->as_string();
  return exit;
}

std::optional<RelayEvent> read_event(const json::object& object) {
  const std::string_view type = object.at("type").as_string();
  if (type == "hello") {
    return RelayHello{.running = object.at("running").as_bool(),
                      .tty = object.at("tty").as_bool(),
                      .from = number_of(object, "from"),
                      .last_sequence = number_of(object, "last_sequence")};
  }
  if (type == "truncated") {
    const bool errors = object.at("stream").as_string() == "stderr";
    return RelayTruncated{.stream = errors ? RelayStream::err : RelayStream::out,
                          .from = number_of(object, "from"),
                          .to = number_of(object, "to")};
  }
  if (type == "written" || type == "input_closed") {
    return RelayInputTaken{.sequence = number_of(object, "sequence"), .written = type == "written"};
  }
  if (type == "exit") return read_exit(object);
  return std::nullopt;
}

RelayEvent read_output(std::string message) {
  const char stream = message.empty() ? '\0' : message.front();
  if (message.size() < kHeader || (stream != static_cast<char>(RelayStream::out) &&
                                   stream != static_cast<char>(RelayStream::err))) {
    throw Error(ErrorCode::protocol_error, "the daemon sent bytes of a stream unknown here");
  }
  RelayOutput output{.stream = RelayStream{stream},
                     .offset = number_in(std::string_view(message).substr(1, kHeader - 1))};
  output.bytes = std::move(message.erase(0, kHeader));
  return output;
}

}  // namespace

std::optional<RelayEvent> read_relay_message(net::Message message) {
  if (message.kind != net::MessageKind::text) return read_output(std::move(message.data));
  try {
    return read_event(json::parse(message.data).as_object());
  } catch (const std::exception& error) {
    throw Error(ErrorCode::protocol_error,
                str("the daemon sent a message that is not understood here: ", error.what()));
  }
}

std::string missing_bytes(std::uint64_t from, std::uint64_t to) {
  return str("the ", to - from, " bytes from offset ", from, " to ", to, " are no longer kept");
}

std::string relay_input(std::uint64_t sequence, std::string_view bytes) {
  std::string message(1, static_cast<char>(RelayStream::in));
  for (int shift = 56; shift >= 0; shift -= 8) {
    message.push_back(static_cast<char>((sequence >> shift) & 0xFF));
  }
  return message.append(bytes);
}

std::string relay_close_input() {
  return json::serialize(json::object{{"type", "close_input"}});
}

std::string relay_resize(unsigned rows, unsigned columns) {
  return json::serialize(json::object{{"type", "resize"}, {"rows", rows}, {"columns", columns}});
}

}  // namespace caisson::cli
