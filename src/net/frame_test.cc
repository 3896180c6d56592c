#include "net/frame.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/str.h"

namespace caisson::net {
namespace {

std::string bytes_of(std::initializer_list<unsigned> values) {
  std::string bytes;
  for (const unsigned value : values) bytes.push_back(static_cast<char>(value));
  return bytes;
}

constexpr MaskKey kKey = {0x37, '\xFA', 0x21, 0x3D};

TEST(Frame, EncodesAndDecodesHeads) {
  struct Row {
    FrameHead head;
    std::string bytes;
  };
  const std::vector<Row> rows = {
      {{true, Opcode::text, 5, {}}, bytes_of({0x81, 5})},
      {{true, Opcode::text, 5, kKey}, bytes_of({0x81, 0x85, 0x37, 0xFA, 0x21, 0x3D})},
      {{false, Opcode::text, 3, {}}, bytes_of({0x01, 3})},
      {{true, Opcode::continuation, 2, {}}, bytes_of({0x80, 2})},
      {{true, Opcode::ping, 0, {}}, bytes_of({0x89, 0})},
      {{true, Opcode::pong, 125, {}}, bytes_of({0x8A, 125})},
      {{true, Opcode::close, 2, {}}, bytes_of({0x88, 2})},
      {{true, Opcode::binary, 126, {}}, bytes_of({0x82, 126, 0, 126})},
      {{true, Opcode::binary, 256, {}}, bytes_of({0x82, 126, 1, 0})},
      {{true, Opcode::binary, 65535, {}}, bytes_of({0x82, 126, 255, 255})},
      {{true, Opcode::binary, 65536, {}}, bytes_of({0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0})},
      {{true, Opcode::binary, 0x7FFFFFFFFFFFFFFF, {}},
       bytes_of({0x82, 127, 127, 255, 255, 255, 255, 255, 255, 255})},
  };
  for (const Row& row : rows) {
    std::string encoded;
    append_frame_head(encoded, row.head);
    EXPECT_EQ(encoded, row.bytes);
    for (std::size_t size = 0; size < row.bytes.size(); ++size) {
      EXPECT_FALSE(decode_frame_head(row.bytes.substr(0, size))) << size;
    }
    const auto decoded = decode_frame_head(row.bytes + "payload");
    ASSERT_TRUE(decoded);
    EXPECT_EQ(decoded->head, row.head);
    EXPECT_EQ(decoded->size, row.bytes.size());
  }
}

TEST(Frame, RefusesHeadsThatBreakTheRulesAtTheFirstWrongByte) {
  const std::vector<std::string> heads = {
      bytes_of({0xC1}),        // each reserved bit
      bytes_of({0xA1}),        //
      bytes_of({0x91}),        //
      bytes_of({0x83}),        // reserved opcodes
      bytes_of({0x87}),        //
      bytes_of({0x8B}),        //
      bytes_of({0x8F}),        //
      bytes_of({0x09}),        // a control frame that is not the last of its fragments
      bytes_of({0x89, 126}),   // or too long
      bytes_of({0x88, 0xFF}),  //
      bytes_of({0x82, 127, 0x80, 0, 0, 0, 0, 0, 0, 0}),
      bytes_of({0x82, 126, 0, 125}),  // lengths that fit a shorter form
      bytes_of({0x82, 127, 0, 0, 0, 0, 0, 0, 255, 255}),
  };
  for (const std::string& head : heads) {
    for (std::size_t size = 0; size < head.size(); ++size) {
      EXPECT_FALSE(decode_frame_head(head.substr(0, size)));
    }
    try {
      decode_frame_head(head);
      ADD_FAILURE() << "accepted";
    } catch (const FrameError& error) {
      EXPECT_EQ(error.close_code(), CloseCode::protocol_error);
    }
  }
}

TEST(Frame, MasksTheSameHoweverItIsCut) {
  std::string plain;
  for (int i = 0; i < 100; ++i) plain.push_back(static_cast<char>(i * 7));
  std::string expected = plain;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    expected[i] = static_cast<char>(expected[i] ^ kKey[i % 4]);
  }
  for (std::size_t cut = 0; cut <= plain.size(); ++cut) {
    std::string masked = plain;
    apply_mask(std::span(masked).first(cut), kKey, 0);
    apply_mask(std::span(masked).subspan(cut), kKey, cut);
    EXPECT_EQ(masked, expected) << cut;
  }
}

TEST(Frame, EncodesAndDecodesReasonsToClose) {
  EXPECT_EQ(encode_close({.code = CloseCode::normal}), bytes_of({0x03, 0xE8}));
  EXPECT_EQ(encode_close({.code = CloseCode::too_big, .text = "big"}),
            "\x03\xF1"
            "big");
  EXPECT_EQ(encode_close({.code = CloseCode::no_code}), "");
  EXPECT_EQ(encode_close({.code = CloseCode::lost}), "");
  EXPECT_EQ(decode_close(""), (CloseReason{CloseCode::no_code, ""}));
  EXPECT_EQ(decode_close("\x03\xF1"
                         "big"),
            (CloseReason{CloseCode::too_big, "big"}));
  EXPECT_EQ(decode_close("\x0F\xA0"), (CloseReason{static_cast<CloseCode>(4000), ""}));
}

TEST(Frame, CutsTheTextOfACloseBetweenCharacters) {
  std::string text(122, 'x');
  text += "\u00e9\u00e9";
  EXPECT_EQ(encode_close({.text = text}), "\x03\xE8" + std::string(122, 'x'));
  EXPECT_EQ(encode_close({.text = "\xFF"}), "\x03\xE8");
}

TEST(Frame, RefusesCodesThatNobodyMaySend) {
  for (const unsigned code : {0u, 999u, 1004u, 1005u, 1006u, 1015u, 1016u, 2999u, 5000u, 65535u}) {
    EXPECT_THROW(decode_close(bytes_of({code >> 8, code & 0xFF})), FrameError) << code;
  }
  EXPECT_THROW(decode_close("\x03"), FrameError);
  try {
    decode_close("\x03\xE8\xC0");
    ADD_FAILURE() << "accepted";
  } catch (const FrameError& error) {
    EXPECT_EQ(error.close_code(), CloseCode::invalid_text);
  }
}

}  // namespace
}  // namespace caisson::net
