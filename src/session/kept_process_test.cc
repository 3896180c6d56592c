#include "session/kept_process.h"

#include <gtest/gtest.h>

#include <chrono>

#include "base/error.h"

namespace caisson::session {
namespace {

KeptProcess sample() {
  KeptProcess process;
  process.session_id = "a name";
  process.spec.process_id = "web";
  process.spec.command = "python3";
  process.spec.args = {"-m", "http.server"};
  process.spec.env = {{"TOKEN", "secret"}};
  process.spec.restart = model::Restart::on_failure;
  process.spec.overflow = model::OutputPolicy::hold;
  process.spec.tty = true;
  process.directory = "0123456789abcdef";
  process.phase = ProcessPhase::waiting;
  process.id = 7;
  process.pid = 12;
  process.started_at = model::Timestamp(std::chrono::microseconds(1'700'000'000'000'001));
  process.restarts = 3;
  process.end = ProcessEnd{.at = process.started_at, .exit_code = {}, .signal = 9, .oom = true};
  return process;
}

TEST(KeptProcess, ComesBackAsItWas) {
  EXPECT_EQ(read_kept_process(to_text(sample())), sample());
  KeptProcess running = sample();
  running.phase = ProcessPhase::running;
  running.end.reset();
  EXPECT_EQ(read_kept_process(to_text(running)), running);
}

TEST(KeptProcess, IsRefusedWhenItIsDamagedOrOfAnotherVersion) {
  const std::string text = to_text(sample());
  for (std::size_t length = 0; length < text.size(); ++length) {
    EXPECT_THROW(read_kept_process(text.substr(0, length)), Error) << length;
  }
  const auto with = [&text](std::string_view from, std::string_view to) {
    std::string changed = text;
    return changed.replace(changed.find(from), from.size(), to);
  };
  EXPECT_THROW(read_kept_process(with("\"version\":1", "\"version\":2")), Error);
  EXPECT_THROW(read_kept_process(with("\"phase\":2", "\"phase\":9")), Error);
  EXPECT_THROW(read_kept_process("[]"), Error);
}

}  // namespace
}  // namespace caisson::session
