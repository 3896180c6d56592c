#include "base/unicode.h"

#include <clocale>
#include <cwctype>

#include "base/error.h"
#include "base/text.h"
#include "base/utf8.h"

namespace caisson {

namespace {

// Never freed: it is one for the life of the process.
locale_t utf8_locale() {
  static const locale_t locale = ::newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  if (locale == nullptr) {
    throw Error(ErrorCode::internal_error,
                "the locale C.UTF-8, which tells letters from other characters, is missing on this "
                "host; install libc-bin");
  }
  return locale;
}

// How many bytes the character takes that begins with this one, in valid UTF-8.
std::size_t length_of(unsigned char first) {
  if (first < 0x80) return 1;
  if (first < 0xE0) return 2;
  return first < 0xF0 ? 3 : 4;
}

}  // namespace

std::u32string to_utf32(std::string_view utf8) {
  const std::string text = decode_utf8(utf8);
  std::u32string characters;
  characters.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const auto first = static_cast<unsigned char>(text[at]);
    const std::size_t length = length_of(first);
    char32_t character = length == 1 ? first : first & (0xFFu >> (length + 1));
    for (std::size_t i = 1; i < length; ++i) {
      character = (character << 6) | (static_cast<unsigned char>(text[at + i]) & 0x3Fu);
    }
    characters.push_back(character);
    at += length;
  }
  return characters;
}

void append_utf8(std::string& text, char32_t character) {
  const auto tail = [&](unsigned shift) {
    text.push_back(static_cast<char>(0x80u | ((character >> shift) & 0x3Fu)));
  };
  if (character < 0x80) {
    text.push_back(static_cast<char>(character));
  } else if (character < 0x800) {
    text.push_back(static_cast<char>(0xC0u | (character >> 6)));
    tail(0);
  } else if (character < 0x10000) {
    text.push_back(static_cast<char>(0xE0u | (character >> 12)));
    tail(6);
    tail(0);
  } else {
    text.push_back(static_cast<char>(0xF0u | (character >> 18)));
    tail(12);
    tail(6);
    tail(0);
  }
}

bool is_alphanumeric(char32_t character) {
  if (character < 0x80) {
    return (character >= U'0' && character <= U'9') || (character >= U'A' && character <= U'Z') ||
           (character >= U'a' && character <= U'z');
  }
  return ::iswalnum_l(static_cast<wint_t>(character), utf8_locale()) != 0;
}

char32_t to_lower(char32_t character) {
  if (character < 0x80) {
    return character >= U'A' && character <= U'Z' ? character - U'A' + U'a' : character;
  }
  return static_cast<char32_t>(::towlower_l(static_cast<wint_t>(character), utf8_locale()));
}

}  // namespace caisson
