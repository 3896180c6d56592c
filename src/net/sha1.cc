#include "net/sha1.h"

#include <bit>
#include <cstdint>
#include <string>

namespace caisson::net {

namespace {

constexpr std::size_t kBlock = 64;
using State = std::array<std::uint32_t, 5>;

std::uint32_t word_at(std::string_view bytes, std::size_t at) {
  std::uint32_t word = 0;
  for (std::size_t i = 0; i < 4; ++i) word = word << 8 | static_cast<unsigned char>(bytes[at + i]);
  return word;
}

struct Round {
  std::uint32_t mixed;
  std::uint32_t constant;
};

Round round_of(std::size_t number, std::uint32_t b, std::uint32_t c, std::uint32_t d) {
  if (number < 20) return {(b & c) | (~b & d), 0x5A827999};
  if (number < 40) return {b ^ c ^ d, 0x6ED9EBA1};
  if (number < 60) return {(b & c) | (b & d) | (c & d), 0x8F1BBCDC};
  return {b ^ c ^ d, 0xCA62C1D6};
}

void add_block(State& state, std::string_view block) {
  std::array<std::uint32_t, 80> words{};
  for (std::size_t i = 0; i < 16; ++i) words[i] = word_at(block, 4 * i);
  for (std::size_t i = 16; i < words.size(); ++i) {
    words[i] = std::rotl(words[i - 3] ^ words[i - 8] ^ words[i - 14] ^ words[i - 16], 1);
  }
  auto [a, b, c, d, e] = state;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const Round round = round_of(i, b, c, d);
    const std::uint32_t next = std::rotl(a, 5) + round.mixed + e + round.constant + words[i];
    e = d;
    d = c;
    c = std::rotl(b, 30);
    b = a;
    a = next;
  }
  const State added = {a, b, c, d, e};
  for (std::size_t i = 0; i < state.size(); ++i) state[i] += added[i];
}

}  // namespace

std::array<char, 20> sha1(std::string_view text) {
  std::string padded(text);
  padded.push_back('\x80');
  while (padded.size() % kBlock != kBlock - 8) padded.push_back('\0');
  const std::uint64_t bits = std::uint64_t{text.size()} * 8;
  for (std::size_t i = 8; i-- > 0;) padded.push_back(static_cast<char>(bits >> (8 * i) & 0xFF));
  State state = {0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476, 0xC3D2E1F0};
  for (std::size_t at = 0; at < padded.size(); at += kBlock) {
    add_block(state, std::string_view(padded).substr(at, kBlock));
  }
  std::array<char, 20> digest{};
  for (std::size_t i = 0; i < digest.size(); ++i) {
    digest[i] = static_cast<char>(state[i / 4] >> (24 - 8 * (i % 4)) & 0xFF);
  }
  return digest;
}

}  // namespace caisson::net
