#include "model/python_text.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <charconv>
#include <cmath>
#include <string_view>

namespace caisson::model {

namespace json = boost::json;

namespace {

void write_string(std::string& out, std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  out.push_back('"');
  std::size_t plain = 0;  // what goes as it is begins here
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte >= 0x20 && byte != '"' && byte != '\\') continue;
    out.append(text.substr(plain, i - plain));
    plain = i + 1;
    out.push_back('\\');
    switch (byte) {
      case '\n':
        out.push_back('n');
        break;
      case '\r':
        out.push_back('r');
        break;
      case '\t':
        out.push_back('t');
        break;
      case '\b':
        out.push_back('b');
        break;
      case '\f':
        out.push_back('f');
        break;
      case '"':
      case '\\':
        out.push_back(static_cast<char>(byte));
        break;
      default:
        out.append("u00");
        out.push_back(kDigits[byte >> 4]);
        out.push_back(kDigits[byte & 15]);
    }
  }
  out.append(text.substr(plain));
  out.push_back('"');
}

void write(std::string& out, const json::value& value) {
  switch (value.kind()) {
    case json::kind::null:
      out.append("null");
      break;
    case json::kind::bool_:
      out.append(value.get_bool() ? "true" : "false");
      break;
    case json::kind::int64:
      out.append(std::to_string(value.get_int64()));
      break;
    case json::kind::uint64:
      out.append(std::to_string(value.get_uint64()));
      break;
    case json::kind::double_:
      out.append(python_text(value.get_double()));
      break;
    case json::kind::string:
      write_string(out, value.get_string());
      break;
    case json::kind::array: {
      std::string_view between = "[";
      for (const json::value& element : value.get_array()) {
        out.append(between);
        write(out, element);
        between = ", ";
      }
      out.append(value.get_array().empty() ? "[]" : "]");
      break;
    }
    case json::kind::object: {
      std::string_view between = "{";
      for (const auto& member : value.get_object()) {
        out.append(between);
        write_string(out, member.key());
        out.append(": ");
        write(out, member.value());
        between = ", ";
      }
      out.append(value.get_object().empty() ? "{}" : "}");
      break;
    }
  }
}

}  // namespace

std::string python_text(bool value) {
  return value ? "True" : "False";
}

std::string python_text(double value) {
  char buffer[64];
  const double size = std::abs(value);
  const bool plain = value == 0 || (size >= 1e-4 && size < 1e16);
  const std::to_chars_result end =
      std::to_chars(buffer, buffer + sizeof buffer, value,
                    plain ? std::chars_format::fixed : std::chars_format::scientific);
  std::string text(buffer, end.ptr);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string python_text(const json::value& value) {
  if (value.is_null()) return "None";
  if (value.is_bool()) return python_text(value.get_bool());
  if (value.is_string()) return std::string(value.get_string());
  return python_json(value);
}

std::string python_json(const json::value& value) {
  std::string out;
  write(out, value);
  return out;
}

}  // namespace caisson::model
