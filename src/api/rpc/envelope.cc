#include "api/rpc/envelope.h"

#include <boost/json/stream_parser.hpp>
#include <utility>

#include "base/str.h"
#include "base/text.h"
#include "base/utf8.h"
#include "model/generation.h"
#include "model/object_reader.h"
#include "model/python_text.h"
#include "session/compare.h"

namespace caisson::api::rpc {

namespace json = boost::json;

namespace {

constexpr std::size_t kMaxFailureText = 4096;           // characters
constexpr std::size_t kMaxParserDepth = kMaxDepth + 1;  // the message is an object around the data
constexpr std::string_view kBlank = " \t\r\n";

std::optional<json::value> parse_text(std::string_view text, const json::storage_ptr& storage) {
  json::parse_options options;
  options.max_depth = kMaxParserDepth;
  json::stream_parser parser(storage, options);
  parser.reset(storage);
  json::error_code error;
  parser.write(text, error);
  if (!error) parser.finish(error);
  if (error) return std::nullopt;
  return parser.release();
}

// The index behind the string that begins at `at`.
std::size_t behind_string(std::string_view text, std::size_t at) {
  for (++at; at < text.size(); ++at) {
    if (text[at] == '\\') {
      ++at;
    } else if (text[at] == '"') {
      return at + 1;
    }
  }
  return text.size();
}

std::string without_constants(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] == '"') {
      const std::size_t end = behind_string(text, at);
      out.append(text.substr(at, end - at));
      at = end;
      continue;
    }
    bool replaced = false;
    for (const std::string_view constant : {"NaN", "Infinity", "-Infinity"}) {
      if (!text.substr(at).starts_with(constant)) continue;
      out.append("null");
      at += constant.size();
      replaced = true;
      break;
    }
    if (!replaced) out.push_back(text[at++]);
  }
  return out;
}

// The index behind the value that begins at `at`.
std::size_t behind_value(std::string_view text, std::size_t at) {
  if (at < text.size() && text[at] == '"') return behind_string(text, at);
  std::size_t depth = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (c == '"') {
      at = behind_string(text, at);
      continue;
    }
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') {
      if (depth == 0) return at;
      if (--depth == 0) return at + 1;
    }
    if (depth == 0 && (c == ',' || kBlank.find(c) != std::string_view::npos)) return at;
    ++at;
  }
  return at;
}

std::size_t skip(std::string_view text, std::size_t at, std::string_view what) {
  const std::size_t found = text.find_first_not_of(what, at);
  return found == std::string_view::npos ? text.size() : found;
}

// So many characters at most. False: there were not more.
bool cut_to(std::string& text, std::size_t characters) {
  for (std::size_t at = 0; at < text.size(); ++at) {
    const bool begins = (static_cast<unsigned char>(text[at]) & 0xC0) != 0x80;
    if (!begins || characters-- > 0) continue;
    text.resize(at);
    return true;
  }
  return false;
}

[[noreturn]] void refuse(std::string_view field, std::string_view fault) {
  throw Fault("ValidationError",
              str("1 validation error for ActionRequest\n", field, "\n  ", fault));
}

std::string identity(model::ObjectReader& reader, std::string_view name) {
  std::string text(trim(reader.required<std::string>(name)));
  if (text.empty()) reader.fail(name, "must not be empty");
  return text;
}

// A plugin's binding says more than a tenant's context, and says it all.
void check_binding(model::ObjectReader& reader) {
  identity(reader, "installation_uuid");
  if (reader.required<std::int64_t>("runtime_revision", model::Coercion::strict) < 1) {
    reader.fail("runtime_revision", "must be greater than or equal to 1");
  }
  const std::string digest = reader.required<std::string>("artifact_digest");
  if (digest.size() != 64 || digest.find_first_not_of("0123456789abcdef") != std::string::npos) {
    reader.fail("artifact_digest", "must be 64 lower-case hexadecimal digits");
  }
}

session::Tenant read_context(const json::value& value) {
  model::ObjectReader reader(value, "context");
  session::Tenant tenant{.instance = identity(reader, "instance_uuid"),
                         .workspace = identity(reader, "workspace_uuid")};
  const bool binding = reader.has("runtime_revision") || reader.has("artifact_digest");
  tenant.generation = reader.optional("placement_generation", tenant.generation,
                                      binding ? model::Coercion::strict : model::Coercion::lax);
  if (tenant.generation < 1) {
    reader.fail("placement_generation", "placement_generation must be greater than or equal to 1");
  }
  if (tenant.generation > model::kMaxGeneration) {
    reader.fail("placement_generation",
                str("placement_generation must be less than or equal to ", model::kMaxGeneration));
  }
  if (binding) {
    check_binding(reader);
  } else if (reader.has_value("installation_uuid")) {
    identity(reader, "installation_uuid");
  }
  reader.reject_unknown_fields();
  return tenant;
}

}  // namespace

std::string failure_kind(const Error& error) {
  if (const auto* fault = dynamic_cast<const Fault*>(&error)) return fault->kind();
  switch (error.code()) {
    case ErrorCode::validation_error:
    case ErrorCode::mount_refused:
    case ErrorCode::image_not_found:
    case ErrorCode::payload_too_large:
      return "BoxValidationError";
    case ErrorCode::forbidden:
    case ErrorCode::unauthorized:
      return "PermissionError";
    case ErrorCode::session_not_found:
      return "BoxSessionNotFoundError";
    case ErrorCode::session_conflict:
      return "BoxSessionConflictError";
    case ErrorCode::managed_process_not_found:
      return "BoxManagedProcessNotFoundError";
    case ErrorCode::managed_process_conflict:
      return "BoxManagedProcessConflictError";
    case ErrorCode::backend_unavailable:
    case ErrorCode::isolation_unavailable:
      return "BoxBackendUnavailableError";
    case ErrorCode::capacity_reached:
      return "BoxCapacityExceededError";
    case ErrorCode::admission_refused:
      return "BoxAdmissionError";
    case ErrorCode::not_ready:
      return "BoxReadinessError";
    case ErrorCode::runtime_unavailable:
      return "BoxRuntimeUnavailableError";
    default:
      return "BoxError";
  }
}

namespace {

// In the sentences that LangBot's hosts match, with values as Python writes them.
std::string conflict_text(const session::SettingsConflict& conflict) {
  if (conflict.setting() == "extra_mounts") {
    return "Box mounts differ from this session's immutable mount set; acquire a Box with a "
           "distinct reuse key for different host mounts. The existing session was preserved.";
  }
  return str("Box session ", printable(conflict.session_id()), " already exists with ",
             conflict.setting(), "=", model::python_text(conflict.existing()));
}

}  // namespace

std::string failure_text(const std::exception_ptr& failure) {
  std::string kind = "BoxError";
  std::string text = "the request failed inside the daemon; its log has the cause";
  try {
    std::rethrow_exception(failure);
  } catch (const session::SettingsConflict& conflict) {
    kind = failure_kind(conflict);
    text = decode_utf8(conflict_text(conflict));
  } catch (const Error& error) {
    kind = failure_kind(error);
    text = decode_utf8(error.what());
  } catch (const std::exception& error) {
    text = decode_utf8(error.what());
  }
  if (kind != "BoxValidationError" && cut_to(text, kMaxFailureText)) {
    text += "... [protocol error truncated]";
  }
  return str(kind, ": ", text);
}

std::optional<json::object> read_object(std::string_view text, const json::storage_ptr& storage) {
  std::optional<json::value> value = parse_text(text, storage);
  if (!value && text.find_first_of("NI") != std::string_view::npos) {
    value = parse_text(without_constants(text), storage);
  }
  if (!value || !value->is_object()) return std::nullopt;
  return std::move(value->as_object());
}

bool is_too_deep(std::string_view text) {
  std::size_t depth = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '"') {
      at = behind_string(text, at) - 1;
    } else if (c == '{' || c == '[') {
      if (++depth > kMaxParserDepth) return true;
    } else if ((c == '}' || c == ']') && depth > 0) {
      --depth;
    }
  }
  return false;
}

std::string_view find_raw(std::string_view object, std::string_view name) {
  const std::string wanted = str("\"", name, "\"");
  std::string_view found;
  std::size_t at = skip(object, 0, kBlank);
  at = skip(object, at + 1, kBlank);
  while (at < object.size() && object[at] == '"') {
    const std::size_t key_end = behind_string(object, at);
    const std::string_view key = object.substr(at, key_end - at);
    at = skip(object, key_end, " \t\r\n:");
    const std::size_t end = behind_value(object, at);
    if (key == wanted) found = object.substr(at, end - at);  // the last one counts
    at = skip(object, end, " \t\r\n,");
  }
  return found;
}

bool is_request(const json::object& message) {
  return message.contains("action") && !message.contains("code");
}

std::string sequence_text(std::string_view message) {
  const std::string_view raw = find_raw(message, "seq_id");
  return raw.empty() ? "-1" : std::string(raw);
}

Request read_request(json::object message) {
  const json::value* sequence = message.if_contains("seq_id");
  if (sequence == nullptr) refuse("seq_id", "Field required");
  if (!model::to_integer(*sequence)) refuse("seq_id", "Input should be a valid integer");
  const json::value& action = message.at("action");
  if (!action.is_string()) refuse("action", "Input should be a valid string");
  json::value* data = message.if_contains("data");
  if (data == nullptr) refuse("data", "Field required");
  if (!data->is_object()) refuse("data", "Input should be a valid dictionary");
  Request request;
  request.action = action.get_string();
  request.data = std::move(data->as_object());
  const json::value* context = message.if_contains("context");
  if (context != nullptr && !context->is_null()) {
    try {
      request.tenant = read_context(*context);
    } catch (const Error& error) {
      refuse("context", error.what());
    }
  }
  return request;
}

std::string answer_text(std::string_view sequence, const json::object& data, std::size_t limit) {
  std::string text =
      str("{\"seq_id\": ", sequence, R"(, "code": 0, "message": "success", "data": )",
          model::python_json(data), R"(, "chunk_status": "continue"})");
  if (text.size() <= limit) return text;
  return error_text(sequence, str("ValueError: Runtime message exceeds ", limit, " byte limit"));
}

std::string error_text(std::string_view sequence, const std::string& message) {
  return str("{\"seq_id\": ", sequence, R"(, "code": 1, "message": )",
             model::python_json(json::value(message)),
             R"(, "data": {}, "chunk_status": "continue"})");
}

}  // namespace caisson::api::rpc
