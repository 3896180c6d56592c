#include "wire/keeper.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/error.h"

namespace caisson::wire {
namespace {

const std::vector<KeeperRequest>& requests() {
  static const std::vector<KeeperRequest> all{
      Keep{.name = "session/a", .data = std::string("{\0}", 3)}, Keep{}, Drop{.name = "session/a"},
      TellAll{}, Quit{}};
  return all;
}

const std::vector<KeeperReply>& replies() {
  static const std::vector<KeeperReply> all{Kept{.name = "session/a", .data = "{}"}, Kept{},
                                            KeptAll{}, KeptAll{.version = 7, .pid = 8}};
  return all;
}

TEST(KeeperMessage, ComesBackAsItWasSent) {
  for (const KeeperRequest& request : requests()) {
    EXPECT_EQ(decode_keeper_request(encode(request)), request);
  }
  for (const KeeperReply& reply : replies()) EXPECT_EQ(decode_keeper_reply(encode(reply)), reply);
}

TEST(KeeperMessage, IsRefusedWhenCutOrExtended) {
  for (const KeeperRequest& request : requests()) {
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
