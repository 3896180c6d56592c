#include "net/target.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/str.h"
#include "base/text.h"
#include "base/utf8.h"

namespace caisson::net {

namespace {

[[noreturn]] void refuse(std::string_view why) {
  throw Error(ErrorCode::validation_error, str("request target: ", why));
}

std::optional<int> hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return std::nullopt;
}

std::string decode(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out.push_back(text[i]);
      continue;
    }
    if (text.size() - i < 3) refuse("a percent sign without two hexadecimal digits");
    const std::optional<int> high = hex_digit(text[i + 1]);
    const std::optional<int> low = hex_digit(text[i + 2]);
    if (!high || !low) refuse("a percent sign without two hexadecimal digits");
    const int byte = *high * 16 + *low;
    if (byte == 0) refuse("NUL is not allowed");
    out.push_back(static_cast<char>(byte));
    i += 2;
  }
  // What it names is kept and shown, and everything that is shown is text.
  if (!is_utf8(out)) refuse("what is percent-encoded must be UTF-8");
  return out;
}

std::string decode_query(std::string_view text) {
  std::string spaced(text);
  std::replace(spaced.begin(), spaced.end(), '+', ' ');
  return decode(spaced);
}

std::vector<std::string> parse_path(std::string_view path) {
  if (path.find('\\') != std::string_view::npos) refuse("backslashes are not allowed");
  std::vector<std::string> segments;
  if (path == "/") return segments;
  const std::vector<std::string_view> pieces = split(path.substr(1), '/');
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].empty() && i + 1 < pieces.size()) refuse("empty path segments are not allowed");
    std::string segment = decode(pieces[i]);
    if (segment == "." || segment == "..") refuse("\".\" and \"..\" are not allowed");
    segments.push_back(std::move(segment));
  }
  return segments;
}

std::vector<std::pair<std::string, std::string>> parse_query(std::string_view query) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const std::string_view piece : split(query, '&')) {
    if (piece.empty()) continue;
    const std::size_t equals = piece.find('=');
    std::string_view value;
    if (equals != std::string_view::npos) value = piece.substr(equals + 1);
    pairs.emplace_back(decode_query(piece.substr(0, equals)), decode_query(value));
  }
  return pairs;
}

// Takes "http://authority" off the front of an absolute-form target.
std::string take_authority(std::string_view& target) {
  constexpr std::string_view kScheme = "http://";
  if (to_lower(target.substr(0, kScheme.size())) != kScheme) {
    refuse("it must begin with \"/\" or \"http://\"");
  }
  target.remove_prefix(kScheme.size());
  const std::size_t end = std::min(target.find_first_of("/?"), target.size());
  std::string authority(target.substr(0, end));
  if (authority.empty() || authority.find('\\') != std::string::npos) refuse("bad authority");
  target.remove_prefix(end);
  return authority;
}

}  // namespace

Target parse_target(std::string_view method, std::string_view target) {
  Target result;
  // These two forms belong to methods that no route has; the router answers them.
  if (method == "CONNECT" || (method == "OPTIONS" && target == "*")) return result;
  const auto is_plain = [](char c) { return c > ' ' && c < '\x7f' && c != '#'; };
  if (!std::all_of(target.begin(), target.end(), is_plain)) {
    refuse("only printable ASCII without \"#\" is allowed; other bytes are percent-encoded");
  }
  if (!target.starts_with('/')) result.authority = take_authority(target);
  const std::size_t question = target.find('?');
  std::string_view path = target.substr(0, question);
  if (path.empty()) path = "/";
  result.path = parse_path(path);
  if (question != std::string_view::npos) result.query = parse_query(target.substr(question + 1));
  return result;
}

std::string encode_segment(std::string_view segment) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string out;
  for (const char c : segment) {
    if (kPlain.find(c) != std::string_view::npos) {
      out.push_back(c);
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out.push_back('%');
      out.push_back(kDigits[byte >> 4]);
      out.push_back(kDigits[byte & 15]);
    }
  }
  return out;
}

}  // namespace caisson::net
