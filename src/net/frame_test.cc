#include "net/frame.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/str.h"
#include "net/utf8.h"

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

struct TextRow {
  std::string text;
  std::size_t wrong_at;  // npos: it is well formed
};

TEST(Utf8Validator, FindsTheFirstWrongByteHoweverTheTextIsCut) {
  constexpr auto kNever = std::string::npos;
  const std::vector<TextRow> rows = {
      {"", kNever},
      {"plain text that is longer than a word", kNever},
      {"k\u00f6sme \u20ac \U0001F600", kNever},
      {"\xED\x9F\xBF \xEE\x80\x80 \xF4\x8F\xBF\xBF", kNever},
      {"\x80", 0},
      {"12345678\xFF", 8},
      {"\xC0\x80", 0},
      {"\xC1\xBF", 0},
      {"\xE0\x9F\xBF", 1},
      {"\xED\xA0\x80", 1},
      {"\xF0\x8F\xBF\xBF", 1},
      {"\xF4\x90\x80\x80", 1},
      {"\xF5\x80\x80\x80", 0},
      {"\xE2\x82z", 2},
      {"\xC3(", 1},
  };
  for (const TextRow& row : rows) {
    Utf8Validator whole;
    EXPECT_EQ(whole.feed(row.text), row.wrong_at == kNever) << row.text;
    EXPECT_TRUE(row.wrong_at != kNever || whole.complete());
    Utf8Validator bytewise;
    for (std::size_t i = 0; i < std::min(row.wrong_at, row.text.size()); ++i) {
      EXPECT_TRUE(bytewise.feed(row.text.substr(i, 1))) << row.text << " at " << i;
    }
    if (row.wrong_at != kNever) {
      EXPECT_FALSE(bytewise.feed(row.text.substr(row.wrong_at, 1))) << row.text;
    }
  }
  // What is looked at in larger pieces, and where one ends.
  for (std::size_t before = 0; before < 300; ++before) {
    const std::string plain(before, 'x');
    EXPECT_TRUE(Utf8Validator().feed(plain + "\u20ac" + plain)) << before;
    EXPECT_FALSE(Utf8Validator().feed(plain + "\xFF" + plain)) << before;
  }
  Utf8Validator half;
  EXPECT_TRUE(half.feed("\xE2\x82"));
  EXPECT_FALSE(half.complete());
}

}  // namespace
}  // namespace caisson::net
