#include "cli/signals.h"

#include <gtest/gtest.h>

#include <csignal>

#include "base/error.h"

namespace caisson::cli {
namespace {

TEST(Signals, AreKnownByNameAndNumberHoweverWritten) {
  EXPECT_EQ(parse_signal("TERM"), SIGTERM);
  EXPECT_EQ(parse_signal("SIGTERM"), SIGTERM);
  EXPECT_EQ(parse_signal("sigusr1"), SIGUSR1);
  EXPECT_EQ(parse_signal("hup"), SIGHUP);
  EXPECT_EQ(parse_signal("9"), SIGKILL);
  EXPECT_EQ(parse_signal("64"), 64);
  EXPECT_EQ(parse_signal("IOT"), SIGABRT);
}

TEST(Signals, OfOtherNamesAndNumbersAreRefused) {
  for (const char* text : {"", "SIG", "0", "-1", "65", "TERMINATE", "9x"}) {
    EXPECT_THROW(parse_signal(text), Error) << text;
  }
  try {
    parse_signal("SIGFOO");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::validation_error);
    EXPECT_STREQ(error.what(),
                 "\"SIGFOO\" is no signal: name one, as TERM or SIGTERM, or give its number, from "
                 "1 to 64");
  }
}

TEST(Signals, HaveANameForPeople) {
  EXPECT_EQ(signal_text(SIGKILL), "SIGKILL");
  EXPECT_EQ(signal_text(40), "signal 40");
}

TEST(Signals, AreIgnoredWhenTheyAre) {
  const auto before = std::signal(SIGUSR2, SIG_IGN);
  EXPECT_TRUE(is_ignored(SIGUSR2));
  std::signal(SIGUSR2, before);
  EXPECT_FALSE(is_ignored(SIGUSR2));
}

}  // namespace
}  // namespace caisson::cli
