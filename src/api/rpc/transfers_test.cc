#include "api/rpc/transfers.h"

#include <gtest/gtest.h>

#include "api/rpc/envelope.h"
#include "base/base64.h"
#include "base/file.h"
#include "base/str.h"
#include "base/temporary_directory.h"

namespace caisson::api::rpc {
namespace {

namespace json = boost::json;

constexpr std::uint64_t kMost = 100'000;

json::object chunk(const std::string& key, const std::string& bytes, std::int64_t index = 0,
                   std::int64_t amount = 1) {
  return {{"file_key", key},
          {"chunk_base64", encode_base64(bytes)},
          {"chunk_index", index},
          {"chunk_amount", amount}};
}

class TransfersTest : public testing::Test {
 protected:
  std::string refusal_of(const json::object& data, std::uint64_t most = kMost) {
    try {
      transfers_.add(data, most);
      return "";
    } catch (...) {
      return failure_text(std::current_exception());
    }
  }
  std::string take(const std::string& key) { return read_all(transfers_.take(key).get(), key); }

  TemporaryDirectory directory_;
  Transfers transfers_{directory_.path()};
};

TEST_F(TransfersTest, PutsPiecesTogether) {
  EXPECT_EQ(refusal_of(chunk("a.zip", std::string(16'384, 'x'), 0, 2)), "");
  EXPECT_EQ(refusal_of(chunk("a.zip", "y", 1, 2)), "");
  EXPECT_EQ(take("a.zip"), std::string(16'384, 'x') + "y");
  EXPECT_THROW(take("a.zip"), Fault);
}

TEST_F(TransfersTest, BeginsAnewWithTheFirstPiece) {
  EXPECT_EQ(refusal_of(chunk("a", "old")), "");
  EXPECT_EQ(refusal_of(chunk("a", "n")), "");
  EXPECT_EQ(take("a"), "n");
}

TEST_F(TransfersTest, LeavesNoFileBehind) {
  EXPECT_EQ(refusal_of(chunk("a", "x")), "");
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path()));
}

TEST_F(TransfersTest, RefusesPiecesByTheirRules) {
  for (const char* key : {"", ".a", "a/b", "a..b", "a\\b", "-a", "é"}) {
    EXPECT_EQ(refusal_of(chunk(key, "x")), "ValueError: Invalid file transfer key") << key;
  }
  EXPECT_EQ(refusal_of(chunk(std::string(256, 'a'), "x")), "ValueError: Invalid file transfer key");
  EXPECT_EQ(refusal_of(chunk("a", std::string(16'385, 'x'))),
            "ValueError: File transfer chunk exceeds the protocol limit");
  json::object data = chunk("a", "x");
  data["chunk_base64"] = "!!!!";
  EXPECT_EQ(refusal_of(data), "Error: Only base64 data is allowed");
  const std::string position = "ValueError: Invalid file chunk position";
  EXPECT_EQ(refusal_of(chunk("a", "x", 1, 1)), position);
  EXPECT_EQ(refusal_of(chunk("a", "x", -1, 1)), position);
  EXPECT_EQ(refusal_of(chunk("a", "x", 0, 0)), position);
  data = chunk("a", "x");
  data["chunk_index"] = "0";
  EXPECT_EQ(refusal_of(data), position);
  data.erase("chunk_index");
  EXPECT_EQ(refusal_of(data), "KeyError: 'chunk_index'");
}

TEST_F(TransfersTest, IsBounded) {
  EXPECT_EQ(refusal_of(chunk("a", "xyz"), 2),
            "ValueError: File transfer exceeds the configured size limit");
  for (int i = 0; i < 128; ++i) EXPECT_EQ(refusal_of(chunk(str("f", i), "x")), "");
  EXPECT_EQ(refusal_of(chunk("more", "x")), "ValueError: Active file transfer capacity reached");
  EXPECT_EQ(refusal_of(chunk("f0", "x")), "");
}

}  // namespace
}  // namespace caisson::api::rpc
