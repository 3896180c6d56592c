#pragma once
#include <concepts>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace caisson::wire {

// Appends values to a message: whole numbers in little-endian order at their own width, text with a
// 32-bit length before it, lists with a 32-bit count.
class Writer {
 public:
  template <std::integral T>
  void put(T value) {
    auto bits = static_cast<std::make_unsigned_t<T>>(value);
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      data_.push_back(static_cast<char>(bits & 0xff));
      if constexpr (sizeof(T) > 1) bits = static_cast<decltype(bits)>(bits >> 8);
    }
  }
  void put(bool value) { put(static_cast<std::uint8_t>(value ? 1 : 0)); }
  void put(std::string_view text) {
    put(static_cast<std::uint32_t>(text.size()));
    data_.append(text);
  }
  template <typename T>
  void put(const std::vector<T>& list) {
    put(static_cast<std::uint32_t>(list.size()));
    for (const T& item : list) {
      if constexpr (std::same_as<T, std::string>) {
        put(std::string_view(item));
      } else {
        put(item);
      }
    }
  }
  std::string take() && { return std::move(data_); }

 private:
  std::string data_;
};

// Takes a message apart. Every length is checked against what is really there; anything else throws
// protocol_error, so a hostile peer can make a reader refuse and nothing more.
class Reader {
 public:
  explicit Reader(std::string_view data) : rest_(data) {}

  template <std::integral T>
  T get() {
    const std::string_view bytes = take(sizeof(T));
    std::make_unsigned_t<T> bits = 0;
    for (std::size_t i = sizeof(T); i-- > 0;) {
      bits = static_cast<decltype(bits)>((static_cast<std::uint64_t>(bits) << 8) |
                                         static_cast<unsigned char>(bytes[i]));
    }
    return static_cast<T>(bits);
  }
  bool get_bool() {
    const auto value = get<std::uint8_t>();
    if (value > 1) throw Error(ErrorCode::protocol_error, "message with a malformed flag");
    return value == 1;
  }
  std::string get_text() { return std::string(take(get<std::uint32_t>())); }
  std::vector<std::string> get_texts() {
    return get_list<std::string>(4, [this] { return get_text(); });
  }
  template <std::integral T>
  std::vector<T> get_numbers() {
    return get_list<T>(sizeof(T), [this] { return get<T>(); });
  }
  // `least` is the smallest encoding of one item: a count that cannot fit is refused before
  // allocating.
  template <typename T, typename One>
  std::vector<T> get_list(std::size_t least, One one) {
    const auto count = get<std::uint32_t>();
    if (count > rest_.size() / least) {
      throw Error(ErrorCode::protocol_error, "message with a list longer than itself");
    }
    std::vector<T> list;
    list.reserve(count);
    for (std::uint32_t i = 0; i < count; ++i) list.push_back(one());
    return list;
  }
  void expect_end() const {
    if (!rest_.empty()) throw Error(ErrorCode::protocol_error, "message with bytes after its end");
  }

 private:
  std::string_view take(std::size_t count) {
    if (count > rest_.size()) throw Error(ErrorCode::protocol_error, "message cut short");
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }
  std::string_view rest_;
};

// The one message that `read` finds in the data, which holds nothing else.
template <typename Read>
auto decode_whole(std::string_view data, Read read) {
  Reader reader(data);
  auto message = read(reader);
  reader.expect_end();
  return message;
}

}  // namespace caisson::wire
