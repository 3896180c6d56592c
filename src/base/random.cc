#include "base/random.h"

#include <sys/random.h>

#include <cerrno>

#include "base/error.h"

namespace caisson {

void fill_randomly(void* bytes, std::size_t size) {
  auto* at = static_cast<char*>(bytes);
  while (size > 0) {
    const ssize_t got = ::getrandom(at, size, 0);
    if (got < 0 && errno == EINTR) continue;
    check_syscall("random bytes", got);
    at += got;
    size -= static_cast<std::size_t>(got);
  }
}

std::uint64_t random_number() {
  std::uint64_t number = 0;
  fill_randomly(&number, sizeof number);
  return number;
}

std::string random_hex(std::size_t bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string random(bytes, '\0');
  fill_randomly(random.data(), random.size());
  std::string digits;
  digits.reserve(2 * bytes);
  for (const char c : random) {
    const auto byte = static_cast<unsigned char>(c);
    digits.push_back(kDigits[byte >> 4]);
    digits.push_back(kDigits[byte & 0xF]);
  }
  return digits;
}

}  // namespace caisson
