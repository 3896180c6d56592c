#include "wire/guest.h"

#include <gtest/gtest.h>

#include <functional>

#include "base/error.h"
#include "wire/bytes.h"
#include "wire/samples_for_test.h"

namespace caisson::wire {
namespace {

using Decode = std::function<void(std::string_view)>;

const Decode kDecodeOwner = [](std::string_view data) { decode_owner_message(data); };
const Decode kDecodeGuest = [](std::string_view data) { decode_guest_message(data); };

// The sentence with which the data is refused as a protocol_error; "" when it is taken.
std::string refusal(const Decode& decode, std::string_view data) {
  try {
    decode(data);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::protocol_error) << error.what();
    return error.what();
  }
  return "";
}

void refuses_every_part_of(const Decode& decode, const std::string& whole) {
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_NE(refusal(decode, std::string_view(whole).substr(0, length)), "")
        << length << " of " << whole.size() << " bytes, tag " << int(whole[0]);
  }
}

std::string with_number(std::string data, std::size_t at, std::uint32_t number) {
  Writer writer;
  writer.put(number);
  return data.replace(at, 4, std::move(writer).take());
}

TEST(OwnerMessage, SamplesCoverEveryKind) {
  EXPECT_TRUE(samples::complete(samples::owner_messages()));
}

TEST(GuestMessage, SamplesCoverEveryKind) {
  EXPECT_TRUE(samples::complete(samples::guest_messages()));
}

TEST(OwnerMessage, SurvivesTheWay) {
  for (const OwnerMessage& message : samples::owner_messages()) {
    EXPECT_EQ(decode_owner_message(encode(message)), message) << "kind " << message.index();
  }
}

TEST(GuestMessage, SurvivesTheWay) {
  for (const GuestMessage& message : samples::guest_messages()) {
    EXPECT_EQ(decode_guest_message(encode(message)), message) << "kind " << message.index();
  }
}

TEST(OwnerMessage, IsRefusedWhereverItIsCut) {
  for (const OwnerMessage& message : samples::owner_messages()) {
    refuses_every_part_of(kDecodeOwner, encode(message));
  }
}

TEST(GuestMessage, IsRefusedWhereverItIsCut) {
  for (const GuestMessage& message : samples::guest_messages()) {
    refuses_every_part_of(kDecodeGuest, encode(message));
  }
}

TEST(OwnerMessage, IsRefusedWithBytesAfterItsEnd) {
  for (const OwnerMessage& message : samples::owner_messages()) {
    EXPECT_EQ(refusal(kDecodeOwner, encode(message) + '\0'), "message with bytes after its end");
  }
}

TEST(GuestMessage, IsRefusedWithBytesAfterItsEnd) {
  for (const GuestMessage& message : samples::guest_messages()) {
    EXPECT_EQ(refusal(kDecodeGuest, encode(message) + '\0'), "message with bytes after its end");
  }
}

// Both directions use one socket, so neither side may take its own kind of message for an answer.
TEST(OwnerMessage, IsNoGuestMessage) {
  for (const OwnerMessage& message : samples::owner_messages()) {
    EXPECT_EQ(refusal(kDecodeGuest, encode(message)), "message of an unknown type");
  }
  for (const GuestMessage& message : samples::guest_messages()) {
    EXPECT_EQ(refusal(kDecodeOwner, encode(message)), "message of an unknown type");
  }
}

TEST(OwnerMessage, HasEightTagsAndNoMore) {
  int known = 0;
  for (int tag = 0; tag < 256; ++tag) {
    const std::string data(1, static_cast<char>(tag));
    const std::string why = refusal(kDecodeOwner, data);
    if (why != "message of an unknown type") ++known;
  }
  EXPECT_EQ(known, 8);
}

TEST(GuestMessage, HasNineTagsAndNoMore) {
  int known = 0;
  for (int tag = 0; tag < 256; ++tag) {
    const std::string data(1, static_cast<char>(tag));
    const std::string why = refusal(kDecodeGuest, data);
    if (why != "message of an unknown type") ++known;
  }
  EXPECT_EQ(known, 9);
}

// The numbers are the protocol: a guest of another build of the same version has to understand.
TEST(GuestMessage, HasTheDocumentedBytes) {
  EXPECT_EQ(encode(GuestMessage(Started{.id = 0x0807060504030201, .pid = 2})),
            std::string("\x84\x01\x02\x03\x04\x05\x06\x07\x08\x02\0\0\0", 13));
  EXPECT_EQ(encode(OwnerMessage(Signal{.id = 1, .signal_number = -2, .group = true})),
            std::string("\x02\x01\0\0\0\0\0\0\0\xfe\xff\xff\xff\x01", 14));
  EXPECT_EQ(encode(OwnerMessage(Start{.id = 1, .argv = {"ls"}, .cwd = "/", .uid = 2, .gid = 3})),
            std::string("\x01\x01\0\0\0\0\0\0\0"
                        "\x01\0\0\0\x02\0\0\0ls"
                        "\0\0\0\0"
                        "\x01\0\0\0/"
                        "\x02\0\0\0\x03\0\0\0"
                        "\x01"
                        "\0"
                        "\0\0\0\0\0\0\0\0"
                        "\0\0\0\0"
                        "\0",
                        51));
}

TEST(OwnerMessage, RefusesAListLongerThanItself) {
  // tag, id, then the count of argv.
  const std::string start = encode(OwnerMessage(Start{.id = 1, .argv = {"a", "b"}}));
  for (const std::uint32_t count : {20u, 1000u, 0x40000000u, 0x80000000u, samples::kMax32}) {
    EXPECT_EQ(refusal(kDecodeOwner, with_number(start, 9, count)),
              "message with a list longer than itself")
        << count;
  }
}

TEST(GuestMessage, RefusesAListLongerThanItself) {
  // tag, version, then the count of proofs.
  const std::string ready = encode(GuestMessage(Ready{.proofs = {ProofResult{}}}));
  for (const std::uint32_t count : {2u, 1000u, 0x80000000u, samples::kMax32}) {
    EXPECT_EQ(refusal(kDecodeGuest, with_number(ready, 5, count)),
              "message with a list longer than itself")
        << count;
  }
}

TEST(OwnerMessage, RefusesATextLongerThanItself) {
  // tag, id, the count of argv, then the length of its first text.
  const std::string start = encode(OwnerMessage(Start{.id = 1, .argv = {"ls"}}));
  for (const std::uint32_t length : {100u, 0x80000000u, samples::kMax32}) {
    EXPECT_EQ(refusal(kDecodeOwner, with_number(start, 13, length)), "message cut short") << length;
  }
}

TEST(OwnerMessage, RefusesAFlagThatIsNeitherSetNorUnset) {
  std::string signal = encode(OwnerMessage(Signal{.id = 1, .signal_number = 9, .group = true}));
  for (const char value : {'\x02', '\x7f', '\xff'}) {
    signal.back() = value;
    EXPECT_EQ(refusal(kDecodeOwner, signal), "message with a malformed flag");
  }
}

TEST(GuestMessage, RefusesProofsAndStepsThatDoNotExist) {
  std::string ready = encode(GuestMessage(Ready{.proofs = {ProofResult{}}}));
  for (const int proof : {int{kProofCount}, 128, 255}) {
    ready[9] = static_cast<char>(proof);
    EXPECT_EQ(refusal(kDecodeGuest, ready), "message with an unknown kind") << proof;
  }
  std::string failed = encode(GuestMessage(StartFailed{.id = 1}));
  for (const int step : {int{kStartStepCount}, 128, 255}) {
    failed[9] = static_cast<char>(step);
    EXPECT_EQ(refusal(kDecodeGuest, failed), "message with an unknown kind") << step;
  }
}

// Every single changed byte either is refused or means exactly what it encodes to: there is no
// second spelling of a message.
TEST(GuestMessage, HasOneSpelling) {
  for (const GuestMessage& message : samples::guest_messages()) {
    const std::string data = encode(message);
    for (std::size_t at = 0; at < data.size(); ++at) {
      for (const int flip : {0x01, 0x80, 0xff}) {
        std::string changed = data;
        changed[at] = static_cast<char>(changed[at] ^ flip);
        try {
          EXPECT_EQ(encode(decode_guest_message(changed)), changed);
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ErrorCode::protocol_error);
        }
      }
    }
  }
}

TEST(OwnerMessage, CarriesTheLargestCommandThatFitsInline) {
  const std::string argument(kMaxInlineBytes, 'x');
  const OwnerMessage message = Start{.id = 1, .argv = {argument}};
  EXPECT_EQ(decode_owner_message(encode(message)), message);
}

}  // namespace
}  // namespace caisson::wire
