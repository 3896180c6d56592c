#include "cli/raw_terminal.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/file.h"
#include "base/unique_fd.h"

namespace caisson::cli {
namespace {

struct Terminal {
  UniqueFd master{check_syscall("posix_openpt", ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC))};
  UniqueFd fd;

  Terminal() {
    check_syscall("grantpt", ::grantpt(master.get()));
    check_syscall("unlockpt", ::unlockpt(master.get()));
    fd = open_file(::ptsname(master.get()), O_RDWR | O_NOCTTY);
  }
  tcflag_t local_modes() const {
    termios modes{};
    check_syscall("terminal", ::tcgetattr(fd.get(), &modes));
    return modes.c_lflag;
  }
};

TEST(RawTerminal, IsAsItWasBeforeWhenItGoes) {
  const Terminal terminal;
  const tcflag_t before = terminal.local_modes();
  {
    RawTerminal raw(terminal.fd.get());
    EXPECT_EQ(terminal.local_modes() & (ICANON | ECHO | ISIG), 0u);
    raw.restore();
    EXPECT_EQ(terminal.local_modes(), before);
    raw.enter();
    EXPECT_EQ(terminal.local_modes() & (ICANON | ECHO | ISIG), 0u);
  }
  EXPECT_EQ(terminal.local_modes(), before);
}

TEST(RawTerminal, MustBeATerminal) {
  const UniqueFd null = open_file("/dev/null", O_RDWR);
  EXPECT_THROW(RawTerminal raw(null.get()), Error);
}

TEST(DetachKeys, AreControlPAndControlQHoweverTheyArrive) {
  DetachKeys keys;
  EXPECT_EQ(keys.take("abc").bytes, "abc");
  DetachKeys::Typed typed = keys.take("x\x10");
  EXPECT_EQ(typed.bytes, "x");
  EXPECT_FALSE(typed.detach);
  typed = keys.take("\x11rest");
  EXPECT_EQ(typed.bytes, "");
  EXPECT_TRUE(typed.detach);
  EXPECT_TRUE(DetachKeys().take("\x10\x11").detach);
}

TEST(DetachKeys, LeaveEveryOtherKeyToTheProcess) {
  DetachKeys keys;
  EXPECT_EQ(keys.take("\x10").bytes, "");
  EXPECT_EQ(keys.take("a").bytes,
            "\x10"
            "a");
  EXPECT_EQ(keys.take("\x11").bytes, "\x11");
  EXPECT_EQ(keys.take("\x10\x10").bytes, "\x10");
  EXPECT_TRUE(keys.take("\x11").detach);
}

}  // namespace
}  // namespace caisson::cli
