#include <algorithm>
#include <cstdio>
#include <regex>

#include "base/text.h"
#include "base/unicode.h"
#include "model/yaml.h"

namespace caisson::model {

namespace {

constexpr std::size_t kLongestResolved = 64;  // no number or date is longer

// Characters that every reader takes as they are. Readers do not agree on whether U+0085, U+2028
// and U+2029 end a line.
bool is_printable(char32_t c) {
  if (c == U'\n' || (c >= 0x20 && c <= 0x7E) || c >= 0x10000) return true;
  if (c == 0x2028 || c == 0x2029 || c == 0xFEFF) return false;
  return (c >= 0xA0 && c <= 0xD7FF) || (c >= 0xE000 && c <= 0xFFFD);
}

// What YAML 1.1 or 1.2 reads as no text: null, bool, int, float, timestamp, merge and value.
bool resolves_to_something_else(const std::string& text) {
  static const std::regex pattern(
      "~|null|Null|NULL|=|<<"
      "|yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF"
      "|[-+]?0b[01_]+|[-+]?0o?[0-7_]+|[-+]?(0|[1-9][0-9_]*)|[-+]?0x[0-9a-fA-F_]+"
      "|[-+]?[1-9][0-9_]*(:[0-5]?[0-9])+(\\.[0-9_]*)?"
      "|[-+]?[0-9][0-9_]*\\.[0-9_]*([eE][-+]?[0-9]+)?|[-+]?\\.[0-9][0-9_]*([eE][-+]?[0-9]+)?"
      "|[-+]?[0-9]+[eE][-+]?[0-9]+|[-+]?[0-9]+"
      "|[-+]?\\.(inf|Inf|INF)|\\.(nan|NaN|NAN)"
      "|\\d{4}-\\d\\d-\\d\\d"
      "|\\d{4}-\\d\\d?-\\d\\d?([Tt]|[ \\t]+)\\d\\d?:\\d\\d:\\d\\d(\\.\\d*)?"
      "([ \\t]*(Z|[-+]\\d\\d?(:\\d\\d)?))?",
      std::regex::optimize);
  return text.size() <= kLongestResolved && std::regex_match(text, pattern);
}

enum class Style { plain, single_quoted, double_quoted };

bool begins_with_indicator(const std::u32string& text) {
  if (text.starts_with(U"---") || text.starts_with(U"...")) return true;
  const char32_t first = text.front();
  const bool alone = text.size() == 1 || text[1] == U' ' || text[1] == U'\n';
  if (first == U'-' || first == U'?' || first == U':') return alone;
  return std::u32string_view(U"#,[]{}&*!|>'\"%@`").find(first) != std::u32string_view::npos;
}

bool has_indicator(const std::u32string& text) {
  for (std::size_t i = 1; i < text.size(); ++i) {
    const bool before_space = i + 1 == text.size() || text[i + 1] == U' ' || text[i + 1] == U'\n';
    if (text[i] == U':' && before_space) return true;
    if (text[i] == U'#' && (text[i - 1] == U' ' || text[i - 1] == U'\n')) return true;
  }
  return false;
}

// A space beside a line break is lost in every style but one; so are, in some readers, line breaks
// at the ends.
bool has_break_that_gets_lost(const std::u32string& text) {
  if (text.front() == U'\n' || text.back() == U'\n') return true;
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (text[i - 1] == U' ' && text[i] == U'\n') return true;
    if (text[i - 1] == U'\n' && text[i] == U' ') return true;
  }
  return false;
}

// A line of its own that ends a document, or the front matter of a file, for those who go by lines.
bool has_marker_line(const std::string& utf8) {
  const std::vector<std::string_view> lines = split(utf8, '\n');
  return lines.size() > 1 && std::any_of(lines.begin(), lines.end(), [](std::string_view line) {
           return trim(line) == "---" || trim(line) == "...";
         });
}

Style style_of(const std::u32string& text, const std::string& utf8) {
  if (text.empty()) return Style::single_quoted;
  if (!std::all_of(text.begin(), text.end(), is_printable) || has_break_that_gets_lost(text) ||
      has_marker_line(utf8)) {
    return Style::double_quoted;
  }
  const bool spaced = text.front() == U' ' || text.back() == U' ';
  const bool broken = text.find(U'\n') != std::u32string::npos;
  const bool plain = !spaced && !broken && !begins_with_indicator(text) && !has_indicator(text) &&
                     !resolves_to_something_else(utf8);
  return plain ? Style::plain : Style::single_quoted;
}

// A run of line breaks stands for one less, so that each run gets one more.
std::string single_quoted(const std::u32string& text) {
  std::string out = "'";
  bool broken = false;
  for (const char32_t c : text) {
    if (c == U'\n' && !broken) out.push_back('\n');
    if (c != U'\n' && broken) out.append("  ");
    broken = c == U'\n';
    append_utf8(out, c);
    if (c == U'\'') out.push_back('\'');
  }
  return out + "'";
}

void append_escaped(std::string& out, char32_t c) {
  static constexpr std::pair<char32_t, char> kNamed[] = {
      {0, '0'},  {7, 'a'},  {8, 'b'},  {9, 't'},   {10, 'n'},   {11, 'v'},
      {12, 'f'}, {13, 'r'}, {27, 'e'}, {'"', '"'}, {'\\', '\\'}};
  out.push_back('\\');
  const auto* named = std::find_if(std::begin(kNamed), std::end(kNamed),
                                   [&](const auto& pair) { return pair.first == c; });
  if (named != std::end(kNamed)) {
    out.push_back(named->second);
    return;
  }
  const char* format = c <= 0xFF ? "x%02X" : c <= 0xFFFF ? "u%04X" : "U%08X";
  char digits[16];
  std::snprintf(digits, sizeof digits, format, static_cast<unsigned>(c));
  out.append(digits);
}

std::string double_quoted(const std::u32string& text) {
  std::string out = "\"";
  for (const char32_t c : text) {
    const bool kept = is_printable(c) && c != U'\n' && c != U'"' && c != U'\\' && c < 0x10000;
    if (kept) {
      append_utf8(out, c);
    } else {
      append_escaped(out, c);
    }
  }
  return out + "\"";
}

std::string scalar(const std::string& utf8) {
  const std::u32string text = to_utf32(utf8);
  switch (style_of(text, utf8)) {
    case Style::plain:
      return utf8;
    case Style::single_quoted:
      return single_quoted(text);
    case Style::double_quoted:
      return double_quoted(text);
  }
  return utf8;
}

}  // namespace

std::string write_yaml(const std::vector<std::pair<std::string, std::string>>& texts) {
  std::string out;
  for (const auto& [key, text] : texts) {
    out.append(scalar(key)).append(": ").append(scalar(text)).push_back('\n');
  }
  return out;
}

}  // namespace caisson::model
