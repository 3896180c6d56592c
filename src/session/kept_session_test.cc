#include "session/kept_session.h"

#include <gtest/gtest.h>

#include <chrono>

#include "base/error.h"

namespace caisson::session {
namespace {

KeptSession sample() {
  KeptSession session;
  session.spec.session_id = "a name";
  session.spec.cpus = 0.1;
  session.spec.env = {{"A", "1"}};
  session.spec.persistent = true;
  session.box = R"({"slot":3})";
  session.created_at = model::Timestamp(std::chrono::microseconds(1'700'000'000'000'001));
  session.last_used_at = model::Timestamp(std::chrono::microseconds(1'700'000'000'000'002));
  session.last_used = Deadline(Deadline::duration(123'456'789'012));
  session.execs = 7;
  return session;
}

TEST(KeptSession, ComesBackAsItWas) {
  EXPECT_EQ(read_kept_session(to_text(sample())), sample());
}

TEST(KeptSession, IsRefusedWhenItIsDamagedOrOfAnotherVersion) {
  const std::string text = to_text(sample());
  for (std::size_t length = 0; length < text.size(); ++length) {
    EXPECT_THROW(read_kept_session(text.substr(0, length)), Error) << length;
  }
  std::string newer = text;
  newer.replace(newer.find("\"version\":1"), 11, "\"version\":2");
  EXPECT_THROW(read_kept_session(newer), Error);
  EXPECT_THROW(read_kept_session("[]"), Error);
}

}  // namespace
}  // namespace caisson::session
