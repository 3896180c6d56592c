#include "net/frame_reader.h"

#include <gtest/gtest.h>

#include <vector>

#include "net/websocket_for_test.h"

namespace caisson::net {
namespace {

using Event = FrameReader::Event;
constexpr std::uint64_t kLimit = 1u << 20;

// What the bytes come to, as text, when at most `step` of them come at once.
std::string digest(std::string_view bytes, std::size_t step, Role self = Role::server,
                   std::uint64_t limit = kLimit) {
  FrameReader reader(self, limit);
  std::string events;
  std::string pending;
  try {
    while (!bytes.empty()) {
      pending += bytes.substr(0, step);
      bytes.remove_prefix(std::min(step, bytes.size()));
      for (bool more = true; more;) {
        const FrameReader::Step read = reader.read(pending);
        pending.erase(0, read.used);
        more = read.event != Event::more;
        if (read.event == Event::message) {
          const Message message = reader.take_message();
          events += message.kind == MessageKind::text ? "T(" : "B(";
          events += message.data + ")";
        } else if (more) {
          events += read.event == Event::ping   ? "ping("
                    : read.event == Event::pong ? "pong("
                                                : "close(";
          events += reader.control() + ")";
        }
      }
    }
  } catch (const FrameError& error) {
    events += str("!", static_cast<unsigned>(error.close_code()));
  }
  return events;
}

std::string frames(std::initializer_list<std::string> list) {
  std::string bytes;
  for (const std::string& frame : list) bytes += frame;
  return bytes;
}

struct Row {
  std::string bytes;
  std::string events;
};

TEST(FrameReader, MakesMessagesHoweverTheBytesAreCut) {
  const std::string large(70'000, 'x');
  const std::vector<Row> rows = {
      {client_frame(Opcode::text, "hello"), "T(hello)"},
      {client_frame(Opcode::binary, ""), "B()"},
      {frames({client_frame(Opcode::text, "a"), client_frame(Opcode::binary, "b")}), "T(a)B(b)"},
      {frames({client_frame(Opcode::text, "one ", false),
               client_frame(Opcode::continuation, "two ", false),
               client_frame(Opcode::continuation, "three")}),
       "T(one two three)"},
      {frames({client_frame(Opcode::text, "", false), client_frame(Opcode::continuation, "", false),
               client_frame(Opcode::continuation, "")}),
       "T()"},
      {frames({client_frame(Opcode::text, "one ", false), client_frame(Opcode::ping, "p"),
               client_frame(Opcode::pong, "q"), client_frame(Opcode::continuation, "two")}),
       "ping(p)pong(q)T(one two)"},
      {frames({client_frame(Opcode::text, "\xE2\x82", false),
               client_frame(Opcode::continuation, "\xAC")}),
       "T(\xE2\x82\xAC)"},
      {client_frame(Opcode::close, ""), "close()"},
      {client_frame(Opcode::binary, "\xFF\xFE"), "B(\xFF\xFE)"},
      {frames(
           {client_frame(Opcode::text, large, false), client_frame(Opcode::continuation, large)}),
       "T(" + large + large + ")"},
  };
  for (const Row& row : rows) {
    for (const std::size_t step : {1u, 2u, 7u, 4096u, 1u << 20}) {
      EXPECT_EQ(digest(row.bytes, step), row.events) << step;
    }
  }
}

TEST(FrameReader, RefusesWhatBreaksTheRules) {
  const std::vector<Row> rows = {
      {server_frame(Opcode::text, "no mask"), "!1002"},
      {client_frame(Opcode::continuation, "of nothing"), "!1002"},
      {frames({client_frame(Opcode::text, "a", false), client_frame(Opcode::text, "b")}), "!1002"},
      {frames({client_frame(Opcode::text, "a"), client_frame(Opcode::continuation, "b")}),
       "T(a)!1002"},
      {client_frame(Opcode::ping, "p", false), "!1002"},
      {client_frame(Opcode::text, "\xFF"), "!1007"},
      {client_frame(Opcode::text, "ends in \xE2\x82"), "!1007"},
      {frames({client_frame(Opcode::text, "\xE2\x82", false),
               client_frame(Opcode::continuation, "(")}),
       "!1007"},
      {client_frame(Opcode::text, std::string(kLimit + 1, 'x')), "!1009"},
      {frames({client_frame(Opcode::text, std::string(kLimit, 'x'), false),
               client_frame(Opcode::continuation, "x")}),
       "!1009"},
  };
  for (const Row& row : rows) {
    for (const std::size_t step : {1u, 4096u, 4u << 20}) {
      EXPECT_EQ(digest(row.bytes, step), row.events) << step;
    }
  }
  EXPECT_EQ(digest(client_frame(Opcode::text, "masked"), 100, Role::client), "!1002");
  EXPECT_EQ(digest(server_frame(Opcode::text, "plain"), 100, Role::client), "T(plain)");
}

TEST(FrameReader, RefusesByTheAnnouncedLengthAlone) {
  const std::string head = client_frame(Opcode::binary, std::string(kLimit + 1, 'x')).substr(0, 14);
  EXPECT_EQ(digest(head, 14), "!1009");
  EXPECT_EQ(digest(client_frame(Opcode::text, "123456"), 100, Role::server, 5), "!1009");
  EXPECT_EQ(digest(client_frame(Opcode::text, "12345"), 100, Role::server, 5), "T(12345)");
}

TEST(FrameReader, AllocatesLittleForAPromise) {
  FrameReader reader(Role::server, kLimit);
  const std::string frame = client_frame(Opcode::binary, std::string(kLimit, 'x'));
  EXPECT_EQ(reader.read(std::string_view(frame).substr(0, 20)).used, 20u);
  EXPECT_LE(reader.room().size(), 64u << 10);
}

TEST(FrameReader, TakesPayloadThatIsPutWhereItBelongs) {
  FrameReader reader(Role::server, kLimit);
  std::string text(300'000, 'y');
  const std::string frame = client_frame(Opcode::text, text);
  std::size_t at = reader.read(std::string_view(frame).substr(0, 15)).used;
  EXPECT_EQ(at, 15u);
  while (at < frame.size()) {
    const std::span<char> room = reader.room();
    ASSERT_FALSE(room.empty());
    const std::size_t bytes = std::min<std::size_t>(room.size(), 1001);
    frame.copy(room.data(), bytes, at);
    reader.filled(bytes);
    at += bytes;
  }
  EXPECT_TRUE(reader.room().empty());
  EXPECT_EQ(reader.read("").event, Event::message);
  EXPECT_EQ(reader.take_message().data, text);
}

}  // namespace
}  // namespace caisson::net
