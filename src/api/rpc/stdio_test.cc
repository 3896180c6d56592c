#include "api/rpc/stdio.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <csignal>
#include <thread>

#include "async/loop_for_test.h"
#include "base/error.h"
#include "base/file.h"
#include "base/str.h"
#include "base/text.h"
#include "base/utf8.h"

namespace caisson::api::rpc {
namespace {

std::vector<std::string> messages_of(const std::string& lines) {
  LineAssembler assembler;
  std::vector<std::string> messages;
  for (const std::string_view line : split(lines, '\n')) {
    if (auto message = assembler.add(line)) messages.push_back(std::move(*message));
  }
  return messages;
}

std::string fault_of(const std::string& lines) {
  try {
    messages_of(lines);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(StdioFraming, SendsShortMessagesAsOneLine) {
  EXPECT_EQ(frame_lines("{}"), "{}\n");
  const std::string most(16'384, 'x');
  EXPECT_EQ(frame_lines(most), most + "\n");
}

TEST(StdioFraming, CutsLongMessagesBetweenCharactersAndBack) {
  std::string message = "{\"a\": \"";
  while (message.size() < 80'000) message += "é\\\"€𝄞\\\\";
  message += "\"}";
  const std::string lines = frame_lines(message);
  EXPECT_TRUE(
      lines.starts_with(str(R"({"type": "chunk_start", "total_size": )", message.size(), "}\n")));
  for (const std::string_view line : split(lines, '\n')) {
    EXPECT_LE(line.size(), 65'536u);
    EXPECT_TRUE(is_utf8(line));
  }
  EXPECT_EQ(messages_of(lines), std::vector<std::string>{message});
}

TEST(StdioFraming, IgnoresWhatIsNoMessage) {
  EXPECT_EQ(messages_of("hello\n\n   \n  {\"a\": 1}  \n[1]\n"
                        "{\"type\": \"chunk_data\", \"data\": \"x\", \"offset\": 0}\n"
                        "{\"type\": \"chunk_end\"}\n{\"type\": \"other\"}"),
            (std::vector<std::string>{"{\"a\": 1}", "{\"type\": \"other\"}"}));
}

TEST(StdioFraming, IgnoresOtherLinesWithinAMessage) {
  EXPECT_EQ(
      messages_of("{\"type\": \"chunk_start\", \"total_size\": 2}\nprint\n{\"b\": 1}\n{broken}\n"
                  "{\"type\": \"chunk_data\", \"data\": \"{}\", \"offset\": 0}\n"
                  "{\"type\": \"chunk_end\"}"),
      std::vector<std::string>{"{}"});
}

TEST(StdioFraming, EndsWithWhoBreaksTheRules) {
  const std::string start = "{\"type\": \"chunk_start\", \"total_size\": 2}\n";
  EXPECT_NE(fault_of(start + R"({"type": "chunk_data", "data": "{}", "offset": 1})"), "");
  EXPECT_NE(fault_of(start + R"({"type": "chunk_data", "data": "{ }", "offset": 0})"), "");
  EXPECT_NE(fault_of(start + R"({"type": "chunk_data", "offset": 0})"), "");
  EXPECT_NE(fault_of(start + R"({"type": "chunk_end"})"), "");
  EXPECT_NE(fault_of(R"({"type": "chunk_start", "total_size": -1})"), "");
  EXPECT_NE(fault_of(R"({"type": "chunk_start", "total_size": 16777217})"), "");
  EXPECT_NE(fault_of("{\"a\": \"\xff\"}"), "");
  std::string many = start;
  for (int i = 0; i < 4097; ++i) many += "x\n";
  EXPECT_NE(fault_of(many), "");
}

Task<void> converse(StdioChannel& channel, UniqueFd in) {
  write_all(in.get(), "{\"a\": 1}\n{\"b\"", "pipe");
  EXPECT_EQ(co_await channel.read(), "{\"a\": 1}");
  write_all(in.get(), ": 2}\n", "pipe");
  EXPECT_EQ(co_await channel.read(), "{\"b\": 2}");
  EXPECT_TRUE(co_await channel.write("{\"c\": 3}"));
  in.reset();
  EXPECT_EQ(co_await channel.read(), std::nullopt);
}

TEST(StdioChannel, CarriesMessagesBothWaysUntilTheEndOfInput) {
  auto [in_read, in_write] = make_pipe();
  auto [out_read, out_write] = make_pipe();
  {
    boost::asio::io_context io;
    StdioChannel channel(io.get_executor(), std::move(in_read), std::move(out_write));
    run_loop(io, converse(channel, std::move(in_write)));
  }
  EXPECT_EQ(read_all(out_read.get(), "pipe"), "{\"c\": 3}\n");
}

Task<void> read_to_the_end(StdioChannel& channel) {
  EXPECT_EQ(co_await channel.read(), std::nullopt);
  channel.close();
}

TEST(StdioChannel, EndsAtALineThatIsTooLong) {
  auto [in_read, in_write] = make_pipe();
  auto [out_read, out_write] = make_pipe();
  std::signal(SIGPIPE, SIG_IGN);
  // More than the pipe holds: it is taken while it is written.
  std::thread writer([fd = std::move(in_write)] {
    const std::string line(200'000, 'x');
    std::size_t written = 0;
    while (written < line.size()) {
      const ssize_t count = ::write(fd.get(), line.data() + written, line.size() - written);
      if (count < 0) break;  // the other side has closed
      written += static_cast<std::size_t>(count);
    }
  });
  {
    boost::asio::io_context io;
    StdioChannel channel(io.get_executor(), std::move(in_read), std::move(out_write));
    run_loop(io, read_to_the_end(channel));
  }
  writer.join();
}

}  // namespace
}  // namespace caisson::api::rpc
