#include "cli/session_exec.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

#include "base/error.h"

namespace caisson::cli {
namespace {

namespace json = boost::json;

std::vector<ServerEvent> read(const std::vector<std::string>& pieces) {
  EventReader reader;
  std::vector<ServerEvent> events;
  for (const std::string& piece : pieces) {
    reader.add(piece);
    while (auto event = reader.next()) events.push_back(std::move(*event));
  }
  return events;
}

TEST(EventReader, FindsEventsHoweverTheyAreCut) {
  const std::string stream =
      "event: stdout\ndata: {\"text\":\"a\"}\n\n: still running\n\nevent: result\ndata: {}\n\n";
  const std::vector<ServerEvent> expected = {{"stdout", "{\"text\":\"a\"}"}, {"result", "{}"}};
  EXPECT_EQ(read({stream}), expected);
  std::vector<std::string> bytes;
  for (const char c : stream) bytes.emplace_back(1, c);
  EXPECT_EQ(read(bytes), expected);
}

TEST(EventReader, KeepsAnEventThatIsNotComplete) {
  EXPECT_TRUE(read({"event: result\ndata: {}\n"}).empty());
}

TEST(EventReader, RefusesAnEventWithoutEnd) {
  EventReader reader;
  const std::string block(16u << 20, 'x');
  for (int i = 0; i < 4; ++i) reader.add(block);
  EXPECT_THROW(reader.add(block), Error);
}

TEST(SessionExec, TakesFromTheSessionWhatTheRequestLeavesOpen) {
  json::object request{{"memory_mb", 64}, {"env", json::object()}};
  const json::object session = json::parse(R"({"session_id": "x", "memory_mb": 512, "cpus": 2.0,
      "host_path": null, "state": "idle"})")
                                   .as_object();
  fill_in(request, session);
  EXPECT_EQ(json::value(request),
            json::parse(R"({"memory_mb": 64, "env": {}, "cpus": 2.0, "host_path": null})"));
}

}  // namespace
}  // namespace caisson::cli
