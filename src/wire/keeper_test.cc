#include "wire/keeper.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "wire/samples_for_test.h"

namespace caisson::wire {
namespace {

using samples::keeper_replies;
using samples::keeper_requests;

TEST(KeeperMessage, SamplesCoverEveryKind) {
  EXPECT_TRUE(samples::complete(keeper_requests()));
  EXPECT_TRUE(samples::complete(keeper_replies()));
}

TEST(KeeperMessage, ComesBackAsItWasSent) {
  for (const KeeperRequest& request : keeper_requests()) {
    EXPECT_EQ(decode_keeper_request(encode(request)), request);
  }
  for (const KeeperReply& reply : keeper_replies())
    EXPECT_EQ(decode_keeper_reply(encode(reply)), reply);
}

TEST(KeeperMessage, IsRefusedWhenCutOrExtended) {
  for (const KeeperRequest& request : keeper_requests()) {
    const std::string whole = encode(request);
    for (std::size_t length = 0; length < whole.size(); ++length) {
      EXPECT_THROW(decode_keeper_request(whole.substr(0, length)), Error) << length;
    }
    EXPECT_THROW(decode_keeper_request(whole + '\0'), Error);
    EXPECT_THROW(decode_keeper_reply(whole), Error);
  }
}

// A keeper outlives the program that started it.
TEST(KeeperMessage, HasTheDocumentedBytes) {
  EXPECT_EQ(encode(KeeperRequest(Keep{.name = "a", .data = "b"})),
            std::string("\x01\x01\0\0\0a\x01\0\0\0b", 11));
  EXPECT_EQ(encode(KeeperRequest(TellAll{})), "\x03");
  EXPECT_EQ(encode(KeeperReply(KeptAll{})), std::string("\x82\x01\0\0\0\0\0\0\0", 9));
}

}  // namespace
}  // namespace caisson::wire
