#include "base/sha256.h"

#include <gtest/gtest.h>

#include <utility>

namespace caisson {
namespace {

TEST(Sha256, GivesTheDigestsOfTheStandard) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PadsEveryLengthAsTheStandardSays) {
  const std::pair<std::size_t, std::string> rows[] = {
      {1, "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"},
      {55, "d5e285683cd4efc02d021a5c62014694958901005d6f71e89e0989fac77e4072"},
      {56, "04c26261370ee7541549d16dee320c723e3fd14671e66a099afe0a377c16888e"},
      {63, "75220b47218278e656f2013bb8f0c455a25eaf01e86c64924e9d48d89776d6f2"},
      {64, "7ce100971f64e7001e8fe5a51973ecdfe1ced42befe7ee8d5fd6219506b5393c"},
      {65, "9537c5fdf120482f7d58d25e9ed583f52c02b4e304ea814db1633ad565aed7e9"},
      {119, "000b48d4edf0fa7bee3c6236ecd2785baa5db4eeb8bb54341b029e0d9fa5fb0c"},
      {120, "13f05a0b594787f5ecd315edc96141bd3243203d1b7d4f0836f37308b276ba98"},
      {1000, "44f8354494a5ba03ba1792a8d3e9c534c47a9181980fde7a3f44b06ef2ae7c7f"},
  };
  for (const auto& [count, digest] : rows) {
    EXPECT_EQ(sha256_hex(std::string(count, 'x')), digest) << count;
  }
}

TEST(Sha256, SeesBytesOfEveryValue) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes.push_back(static_cast<char>(i));
  EXPECT_EQ(sha256_hex(bytes), "40aff2e9d2d8922e47afd4648e6967497158785fbd1da870e7110266bf944880");
}

TEST(Sha256, IsTheSameOfPiecesOfEverySize) {
  std::string bytes;
  for (int i = 0; i < 300; ++i) bytes.push_back(static_cast<char>(i * 7));
  for (std::size_t piece = 1; piece < 150; ++piece) {
    Sha256 sum;
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      sum.add(std::string_view(bytes).substr(at, piece));
    }
    EXPECT_EQ(sum.hex(), sha256_hex(bytes)) << piece;
  }
}

}  // namespace
}  // namespace caisson
