// The `caisson` tree of the configuration, and the fields that all trees have.
#include <boost/json/array.hpp>
#include <boost/json/value_from.hpp>
#include <utility>

#include "base/str.h"
#include "base/text.h"
#include "model/config_fields.h"

namespace caisson::model {

namespace {
namespace json = boost::json;

constexpr std::int64_t kMaxPort = 65'535;
constexpr std::int64_t kMaxConnections = 1'000'000;
constexpr std::int64_t kMinBufferedBytes = 64 << 20;  // the longest message, and others beside it
constexpr std::int64_t kMaxBufferedBytes = std::int64_t{1} << 40;
constexpr std::int64_t kMaxSeconds = 1'000'000'000;
constexpr std::int64_t kMaxOutputBytes = 1 << 30;
constexpr std::int64_t kMaxCommandBytes = 64 << 20;
constexpr std::int64_t kMaxDownloadBytes = std::int64_t{1} << 60;
constexpr std::int64_t kMaxRequestIds = 100'000;
constexpr std::int64_t kMaxSkillMegabytes = 1 << 20;
constexpr std::int64_t kMaxRequestIdBytes = 1 << 30;

constexpr std::pair<std::string_view, log::Format> kFormats[] = {{"text", log::Format::text},
                                                                 {"json", log::Format::json}};
constexpr std::pair<std::string_view, log::Level> kLevels[] = {{"debug", log::Level::debug},
                                                               {"info", log::Level::info},
                                                               {"warning", log::Level::warning},
                                                               {"error", log::Level::error}};
constexpr std::pair<std::string_view, OnStop> kOnStop[] = {
    {"auto", OnStop::automatic}, {"leave", OnStop::leave}, {"remove", OnStop::remove}};

template <typename Value, std::size_t count>
Value named_value(ObjectReader& reader, std::string_view name,
                  const std::pair<std::string_view, Value> (&table)[count], Value fallback) {
  if (!reader.has(name)) return fallback;
  const std::string text = to_lower(trim(reader.required<std::string>(name)));
  std::vector<std::string> names;
  for (const auto& [word, value] : table) {
    if (text == word) return value;
    names.emplace_back(word);
  }
  reader.fail(name, str("must be one of ", join(names, ", ")));
}

template <typename Value, std::size_t count>
std::string_view name_of(const std::pair<std::string_view, Value> (&table)[count], Value value) {
  for (const auto& [word, candidate] : table) {
    if (candidate == value) return word;
  }
  return table[0].first;
}

std::int64_t number_between(ObjectReader& reader, std::string_view name, std::int64_t fallback,
                            std::int64_t least, std::int64_t most) {
  const std::int64_t number = reader.optional(name, fallback);
  if (number < least || number > most) {
    reader.fail(name, str("must be between ", least, " and ", most));
  }
  return number;
}

std::string read_socket(ObjectReader& reader, const std::string& fallback) {
  std::string socket = text_or(reader, "socket", fallback);
  if (socket != "auto" && socket != "none" && !socket.starts_with('/')) {
    reader.fail("socket", "must be auto, none or an absolute path");
  }
  return socket;
}

// Names and numbers, mixed as one likes.
std::vector<std::string> read_users(ObjectReader& reader) {
  const json::value* given = reader.find("allowed_users");
  if (given == nullptr || !(given->is_array() || given->is_int64())) {
    return read_list(reader, "allowed_users");
  }
  std::vector<std::string> users;
  for (const json::value& user : given->is_array() ? given->get_array() : json::array{*given}) {
    const bool number = user.is_int64() && user.get_int64() >= 0;
    if (!number && !user.is_string()) {
      reader.fail("allowed_users", "must be a list of names and numbers of users");
    }
    const std::string name = number ? str(user.get_int64()) : std::string(user.get_string());
    if (const std::string_view trimmed = trim(name); !trimmed.empty()) users.emplace_back(trimmed);
  }
  return users;
}

std::optional<bool> read_token_required(ObjectReader& reader, const std::string& listen_host) {
  const json::value* value = reader.find("token_required");
  if (value == nullptr || *value == json::value("auto")) return std::nullopt;
  const std::optional<bool> required = to_bool(*value);
  if (!required) reader.fail("token_required", "must be auto, true or false");
  if (!*required && !is_loopback(listen_host)) {
    reader.fail("token_required",
                str("must not be false while caisson.listen.host is ", printable(listen_host),
                    ": others could connect and run commands"));
  }
  return required;
}
}  // namespace

std::string text_or(ObjectReader& reader, std::string_view name, const std::string& fallback) {
  if (!reader.has(name)) return fallback;
  return std::string(trim(reader.nullable<std::string>(name).value_or("")));
}

std::vector<std::string> read_list(ObjectReader& reader, std::string_view name) {
  std::vector<std::string> list;
  const auto add = [&list](std::string_view piece) {
    if (const std::string_view text = trim(piece); !text.empty()) list.emplace_back(text);
  };
  if (!reader.has_value(name)) return list;
  if (reader.find(name)->is_string()) {
    const std::string text = reader.required<std::string>(name);
    for (const std::string_view piece : split(text, ',')) add(piece);
  } else {
    for (const std::string& piece : reader.required<ObjectReader::Strings>(name)) add(piece);
  }
  return list;
}

bool is_loopback(std::string_view host) {
  const std::string name = to_lower(trim(host));
  if (name == "localhost" || name == "::1" || name == "[::1]") return true;
  const std::vector<std::string_view> parts = split(name, '.');
  if (parts.size() != 4 || parts.front() != "127") return false;
  for (const std::string_view part : parts) {
    const std::optional<long long> number = parse_integer(part);
    if (part.size() > 3 || !number || *number < 0 || *number > 255) return false;
  }
  return true;
}

bool needs_token(const DaemonConfig& config) {
  return config.token_required.value_or(!is_loopback(config.listen_host));
}

DaemonConfig read_daemon(ObjectReader reader) {
  DaemonConfig daemon;
  ObjectReader listen = reader.section("listen");
  daemon.listen_host = text_or(listen, "host", daemon.listen_host);
  if (daemon.listen_host.empty()) listen.fail("host", "must not be empty");
  daemon.listen_port = number_between(listen, "port", daemon.listen_port, 0, kMaxPort);
  daemon.listen_socket = read_socket(listen, daemon.listen_socket);
  listen.reject_unknown_fields();
  daemon.state_dir = text_or(reader, "state_dir", daemon.state_dir);
  daemon.allowed_hosts = read_list(reader, "allowed_hosts");
  daemon.allowed_users = read_users(reader);
  daemon.token_required = read_token_required(reader, daemon.listen_host);
  daemon.max_connections =
      number_between(reader, "max_connections", daemon.max_connections, 1, kMaxConnections);
  daemon.max_connections_per_peer = number_between(
      reader, "max_connections_per_peer", daemon.max_connections_per_peer, 1, kMaxConnections);
  daemon.max_buffered_bytes =
      number_between(reader, "max_buffered_bytes", daemon.max_buffered_bytes, kMinBufferedBytes,
                     kMaxBufferedBytes);
  daemon.message_deadline_sec =
      number_between(reader, "message_deadline_sec", daemon.message_deadline_sec, 1, kMaxSeconds);
  daemon.log_format = named_value(reader, "log_format", kFormats, daemon.log_format);
  daemon.log_level = named_value(reader, "log_level", kLevels, daemon.log_level);
  daemon.recovery = reader.optional("recovery", daemon.recovery);
  daemon.on_stop = named_value(reader, "on_stop", kOnStop, daemon.on_stop);
  daemon.pools = reader.optional("pools", daemon.pools);
  daemon.shell_idle_sec =
      number_between(reader, "shell_idle_sec", daemon.shell_idle_sec, 0, kMaxSeconds);
  daemon.session_ttl_sec =
      number_between(reader, "session_ttl_sec", daemon.session_ttl_sec, 1, kMaxSeconds);
  daemon.persistent_idle_limit_sec = number_between(
      reader, "persistent_idle_limit_sec", daemon.persistent_idle_limit_sec, 0, kMaxSeconds);
  daemon.max_output_bytes =
      number_between(reader, "max_output_bytes", daemon.max_output_bytes, 1, kMaxOutputBytes);
  daemon.max_command_bytes =
      number_between(reader, "max_command_bytes", daemon.max_command_bytes, 1, kMaxCommandBytes);
  daemon.max_download_bytes =
      number_between(reader, "max_download_bytes", daemon.max_download_bytes, 1, kMaxDownloadBytes);
  daemon.request_id_ttl_sec =
      number_between(reader, "request_id_ttl_sec", daemon.request_id_ttl_sec, 1, kMaxSeconds);
  daemon.max_request_ids =
      number_between(reader, "max_request_ids", daemon.max_request_ids, 1, kMaxRequestIds);
  daemon.max_request_id_bytes = number_between(reader, "max_request_id_bytes",
                                               daemon.max_request_id_bytes, 1, kMaxRequestIdBytes);
  ObjectReader langbot = reader.section("langbot");
  daemon.langbot.legacy = langbot.optional("legacy", daemon.langbot.legacy);
  daemon.langbot.accept_mount_roots =
      langbot.optional("accept_mount_roots", daemon.langbot.accept_mount_roots);
  daemon.langbot.skill_quota_mb = number_between(
      langbot, "skill_quota_mb", daemon.langbot.skill_quota_mb, 1, kMaxSkillMegabytes);
  langbot.reject_unknown_fields();
  reader.reject_unknown_fields();
  return daemon;
}

json::object to_json(const DaemonConfig& daemon) {
  const json::value token =
      daemon.token_required ? json::value(*daemon.token_required) : json::value("auto");
  return {{"listen",
           {{"host", daemon.listen_host},
            {"port", daemon.listen_port},
            {"socket", daemon.listen_socket}}},
          {"state_dir", daemon.state_dir},
          {"allowed_hosts", json::value_from(daemon.allowed_hosts)},
          {"allowed_users", json::value_from(daemon.allowed_users)},
          {"token_required", token},
          {"max_connections", daemon.max_connections},
          {"max_connections_per_peer", daemon.max_connections_per_peer},
          {"max_buffered_bytes", daemon.max_buffered_bytes},
          {"message_deadline_sec", daemon.message_deadline_sec},
          {"log_format", name_of(kFormats, daemon.log_format)},
          {"log_level", name_of(kLevels, daemon.log_level)},
          {"recovery", daemon.recovery},
          {"on_stop", name_of(kOnStop, daemon.on_stop)},
          {"pools", daemon.pools},
          {"shell_idle_sec", daemon.shell_idle_sec},
          {"session_ttl_sec", daemon.session_ttl_sec},
          {"persistent_idle_limit_sec", daemon.persistent_idle_limit_sec},
          {"max_output_bytes", daemon.max_output_bytes},
          {"max_command_bytes", daemon.max_command_bytes},
          {"max_download_bytes", daemon.max_download_bytes},
          {"request_id_ttl_sec", daemon.request_id_ttl_sec},
          {"max_request_ids", daemon.max_request_ids},
          {"max_request_id_bytes", daemon.max_request_id_bytes},
          {"langbot",
           {{"legacy", daemon.langbot.legacy},
            {"accept_mount_roots", daemon.langbot.accept_mount_roots},
            {"skill_quota_mb", daemon.langbot.skill_quota_mb}}}};
}

}  // namespace caisson::model
