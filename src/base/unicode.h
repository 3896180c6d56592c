#pragma once
#include <string>
#include <string_view>

namespace caisson {

// The characters of UTF-8; each maximal invalid subpart is one U+FFFD.
std::u32string to_utf32(std::string_view utf8);

void append_utf8(std::string& text, char32_t character);

// Letters and digits of every script, by the C library's C.UTF-8, whatever locale the process has.
// Throws internal_error where that locale is missing and the character is not ASCII: a guess would
// let the same name be valid on one host and invalid on the next.
bool is_alphanumeric(char32_t character);

// The small letter of a capital one, one character for one; anything else as it is.
char32_t to_lower(char32_t character);

}  // namespace caisson
