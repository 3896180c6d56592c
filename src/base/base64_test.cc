#include "base/base64.h"

#include <gtest/gtest.h>

namespace caisson {
namespace {

TEST(Base64, EncodesTheVectorsOfTheStandardAndBack) {
  const std::pair<std::string, std::string> kVectors[] = {{"", ""},
                                                          {"f", "Zg=="},
                                                          {"fo", "Zm8="},
                                                          {"foo", "Zm9v"},
                                                          {"foob", "Zm9vYg=="},
                                                          {"fooba", "Zm9vYmE="},
                                                          {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : kVectors) {
    EXPECT_EQ(encode_base64(bytes), text);
    EXPECT_EQ(decode_base64(text), bytes);
  }
  std::string all;
  for (int i = 0; i < 256; ++i) all.push_back(static_cast<char>(i));
  EXPECT_EQ(decode_base64(encode_base64(all)), all);
}

TEST(Base64, RefusesWhatNoEncoderWrites) {
  for (const char* text :
       {"Zg", "Zg=", "Z", "Zg==Zg==", "=", "====", "Zm9v\n", "Zm 9", "Zm9-", "Zh=="}) {
    EXPECT_EQ(decode_base64(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace caisson
