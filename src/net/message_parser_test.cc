#include "net/message_parser.h"

#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "base/str.h"

namespace caisson::net {
namespace {

Request parse(const std::string& bytes) {
  HeadScanner scanner;
  const auto length = scanner.scan(bytes);
  if (!length) throw Error(ErrorCode::validation_error, "incomplete");
  MessageParser parser(MessageParser::Kind::request);
  return make_request(parser.parse_head(bytes.substr(0, *length)));
}

std::string get(std::string_view headers) {
  return str("GET / HTTP/1.1\r\nHost: x\r\n", headers, "\r\n");
}

TEST(HeadScanner, FindsTheEndHoweverTheBytesComeIn) {
  const std::string bytes = "GET / HTTP/1.1\r\nHost: x\r\n\r\nGET";
  HeadScanner scanner;
  for (std::size_t size = 0; size < bytes.size() - 3; ++size) {
    EXPECT_FALSE(scanner.scan(bytes.substr(0, size))) << size;
  }
  EXPECT_EQ(scanner.scan(bytes), bytes.size() - 3);
}

TEST(HeadScanner, RefusesBareLineFeedsAtOnce) {
  for (const char* bytes : {"\n", "GET / HTTP/1.1\n", "GET / HTTP/1.1\r\nHost: x\n\n",
                            "GET / HTTP/1.1\r\nHost: x\r\n\n"}) {
    HeadScanner scanner;
    EXPECT_THROW(scanner.scan(bytes), MalformedMessage) << bytes;
  }
}

TEST(HeadScanner, RefusesFoldedHeaders) {
  for (const char* bytes : {"GET / HTTP/1.1\r\nHost: x\r\n y\r\n\r\n",
                            "GET / HTTP/1.1\r\n\tHost: x\r\n", "GET / HTTP/1.1\r\n \r\n\r\n"}) {
    HeadScanner scanner;
    EXPECT_THROW(scanner.scan(bytes), MalformedMessage) << bytes;
  }
}

TEST(MessageParser, ReadsARequest) {
  const Request request =
      parse("POST /v1/x?y=z HTTP/1.1\r\nHost: h:1\r\nContent-Length: 12\r\nX-Thing:  a b \r\n\r\n");
  EXPECT_EQ(request.method, "POST");
  EXPECT_EQ(request.path, (std::vector<std::string>{"v1", "x"}));
  EXPECT_EQ(request.content_length, 12u);
  EXPECT_TRUE(request.keep_alive);
  ASSERT_NE(request.find("x-thing"), nullptr);
  EXPECT_EQ(*request.find("x-thing"), "a b");
  EXPECT_EQ(request.find("x-other"), nullptr);
  EXPECT_FALSE(parse("GET / HTTP/1.0\r\n\r\n").keep_alive);
  EXPECT_FALSE(parse(get("Connection: close\r\n")).keep_alive);
}

TEST(MessageParser, RefusesAmbiguousFraming) {
  for (const char* headers : {"Content-Length: 3\r\nContent-Length: 3\r\n",
                              "Content-Length: 3\r\nContent-Length: 4\r\n",
                              "Content-Length: 3, 3\r\n",
                              "Content-Length: +3\r\n",
                              "Content-Length: -3\r\n",
                              "Content-Length: 0x3\r\n",
                              "Content-Length: \r\n",
                              "Content-Length: 99999999999999999999\r\n",
                              "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
                              "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n",
                              "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
                              "Transfer-Encoding: gzip, chunked\r\n",
                              "Transfer-Encoding: identity\r\n",
                              "Transfer-Encoding: xchunked\r\n",
                              "Transfer-Encoding: chunked, identity\r\n",
                              "Transfer-Encoding : chunked\r\n",
                              "Transfer-Encoding\r\n",
                              ": x\r\n",
                              "A b: c\r\n",
                              "A: b\rc\r\n",
                              "A: \x01\r\n",
                              "Host: y\r\n"}) {
    EXPECT_THROW(parse(get(headers)), Error) << headers;
  }
  EXPECT_THROW(parse(get(std::string_view("A: \0\r\n", 6))), Error);
  EXPECT_THROW(parse("GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), Error);
}

TEST(MessageParser, RefusesBadRequestLines) {
  for (const char* line : {"GET /", "GET / HTTP/2.0", "GET / HTTP/1.2", "GET  / HTTP/1.1",
                           "GET / HTTP/1.1 ", "G(T / HTTP/1.1", " GET / HTTP/1.1",
                           "GET /a b HTTP/1.1", "", "GET / http/1.1", "GET\t/ HTTP/1.1"}) {
    EXPECT_THROW(parse(str(line, "\r\nHost: x\r\n\r\n")), Error) << line;
  }
}

TEST(MessageParser, WantsAHostInHttp11) {
  EXPECT_THROW(parse("GET / HTTP/1.1\r\n\r\n"), Error);
  EXPECT_NO_THROW(parse("GET / HTTP/1.0\r\n\r\n"));
}

std::string decode_chunked(const std::string& bytes, std::size_t piece) {
  MessageParser parser(MessageParser::Kind::request);
  parser.parse_head(get("Transfer-Encoding: chunked\r\n"));
  std::string body;
  std::string waiting;
  for (std::size_t at = 0; at < bytes.size() && !parser.body_done(); at += piece) {
    waiting += bytes.substr(at, piece);
    std::size_t used = 1;
    while (used > 0 && !waiting.empty() && !parser.body_done()) {
      used = parser.parse_body(waiting, body);
      waiting.erase(0, used);
    }
  }
  return parser.body_done() ? body : "incomplete";
}

TEST(MessageParser, DecodesChunksHoweverTheyComeIn) {
  const std::string bytes =
      "5\r\nhello\r\n1;a=\"b\"\r\n,\r\nA\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n";
  for (std::size_t piece = 1; piece <= bytes.size(); ++piece) {
    EXPECT_EQ(decode_chunked(bytes, piece), "hello,0123456789") << piece;
  }
  EXPECT_EQ(decode_chunked("0\r\n\r\n", 100), "");
  EXPECT_EQ(decode_chunked("5\r\nhel", 100), "incomplete");
}

TEST(MessageParser, RefusesBadChunks) {
  for (const char* bytes :
       {"x\r\n", "-1\r\n", "5\nhello\r\n0\r\n\r\n", "5\r\nhelloX\r\n0\r\n\r\n",
        "1ffffffffffffffff\r\n", "5;a=\"\n\"\r\nhello\r\n0\r\n\r\n", "5 5\r\nhello", "\r\n"}) {
    EXPECT_THROW(decode_chunked(bytes, 1000), MalformedMessage) << bytes;
  }
}

TEST(MessageParser, ReadsAnAnswerWithoutALengthToItsEnd) {
  MessageParser parser(MessageParser::Kind::response);
  EXPECT_EQ(parser.parse_head("HTTP/1.1 200 OK\r\n\r\n").status, 200);
  std::string body;
  EXPECT_EQ(parser.parse_body("all", body), 3u);
  EXPECT_FALSE(parser.body_done());
  parser.finish_at_eof();
  EXPECT_TRUE(parser.body_done());
  parser.parse_head("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n");
  parser.parse_body("cut", body);
  EXPECT_THROW(parser.finish_at_eof(), MalformedMessage);
  parser.parse_head_without_body("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n");
  EXPECT_TRUE(parser.body_done());
}

// Whatever comes in ends in a request or in an Error.
TEST(MessageParser, SurvivesRandomChangesOfAGoodMessage) {
  const std::string good = str("POST /v1/a%2Fb?x=%20y HTTP/1.1\r\nHost: localhost:1\r\n",
                               "Transfer-Encoding: chunked\r\nConnection: keep-alive, x\r\n",
                               "Expect: 100-continue\r\n\r\n5;a=b\r\nhello\r\n0\r\nT: x\r\n\r\n");
  std::mt19937 random(1);
  const auto below = [&](std::size_t bound) { return random() % bound; };
  const std::string alphabet = "\r\n \t:;%/.,0aF\xff" + std::string(1, '\0');
  for (int round = 0; round < 30'000; ++round) {
    std::string bytes = good;
    for (std::size_t changes = 1 + below(3); changes > 0; --changes) {
      const std::size_t at = below(bytes.size());
      if (below(3) == 0) {
        bytes.erase(at, 1 + below(4));
      } else {
        bytes[at] = alphabet[below(alphabet.size())];
      }
    }
    try {
      HeadScanner scanner;
      const auto length = scanner.scan(bytes);
      if (!length) continue;
      MessageParser parser(MessageParser::Kind::request);
      make_request(parser.parse_head(bytes.substr(0, *length)));
      std::string_view rest = std::string_view(bytes).substr(*length);
      std::string body;
      for (std::size_t used = 1; used > 0 && !rest.empty() && !parser.body_done();) {
        used = parser.parse_body(rest, body);
        rest.remove_prefix(used);
      }
      EXPECT_LE(body.size(), bytes.size());
    } catch (const Error&) {
      // Refused: as good.
    }
  }
}

}  // namespace
}  // namespace caisson::net
