#include "cli/relay_message.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace caisson::cli {
namespace {

using namespace std::string_literals;

RelayEvent read(net::MessageKind kind, std::string data) {
  return read_relay_message({.kind = kind, .data = std::move(data)}).value();
}

RelayEvent read_text(std::string data) {
  return read(net::MessageKind::text, std::move(data));
}

TEST(RelayMessage, CarriesBytesWithTheirOffset) {
  const std::string message = "\x02\0\0\0\0\0\0\x01\x02"s + "a\0b"s;
  const RelayOutput expected{.stream = RelayStream::err, .offset = 258, .bytes = "a\0b"s};
  EXPECT_EQ(read(net::MessageKind::binary, message), RelayEvent(expected));
  EXPECT_THROW(read(net::MessageKind::binary, ""), Error);
  EXPECT_THROW(read(net::MessageKind::binary, "\x01short"), Error);
  EXPECT_THROW(read(net::MessageKind::binary, "\x03"s + std::string(8, '\0')), Error);
}

TEST(RelayMessage, TellsWhatHappened) {
  EXPECT_EQ(read_text(R"({"type":"hello","pid":7,"running":true,"tty":true,"from":5,)"
                      R"("stdout":{},"stderr":{},"last_sequence":3})"),
            RelayEvent(RelayHello{.running = true, .tty = true, .from = 5, .last_sequence = 3}));
  EXPECT_EQ(read_text(R"({"type":"truncated","stream":"stderr","from":1,"to":9})"),
            RelayEvent(RelayTruncated{.stream = RelayStream::err, .from = 1, .to = 9}));
  EXPECT_EQ(read_text(R"({"type":"written","sequence":4})"),
            RelayEvent(RelayInputTaken{.sequence = 4, .written = true}));
  EXPECT_EQ(read_text(R"({"type":"input_closed","sequence":4})"),
            RelayEvent(RelayInputTaken{.sequence = 4, .written = false}));
  EXPECT_EQ(read_text(R"({"type":"exit","exit_code":null,"signal":9,"oom":true,"reason":""})"),
            RelayEvent(RelayExit{.exit_code = {}, .signal = 9, .oom = true, .reason = ""}));
  EXPECT_EQ(read_text(R"({"type":"exit"})"), RelayEvent(RelayExit{}));
}

TEST(RelayMessage, MayBeOneOfANewerDaemonButNotNonsense) {
  EXPECT_EQ(read_relay_message({.kind = net::MessageKind::text, .data = R"({"type":"news"})"}),
            std::nullopt);
  for (const char* text : {"", "[]", "{}", R"({"type":7})", R"({"type":"hello"})"}) {
    EXPECT_THROW(read_text(text), Error) << text;
  }
}

TEST(RelayMessage, IsWrittenAsTheDaemonReadsIt) {
  EXPECT_EQ(relay_input(258, "x"), "\0\0\0\0\0\0\0\x01\x02x"s);
  EXPECT_EQ(relay_close_input(), R"({"type":"close_input"})");
  EXPECT_EQ(relay_resize(24, 80), R"({"type":"resize","rows":24,"columns":80})");
}

}  // namespace
}  // namespace caisson::cli
