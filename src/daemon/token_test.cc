#include "daemon/token.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/file.h"
#include "base/temporary_directory.h"

namespace caisson::daemon {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

const std::string kSecret = "0123456789abcdef0123456789ABCDEF.~+/=-_";

std::string refusal(const TemporaryDirectory& directory) {
  try {
    load_or_make_token(directory.path());
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), Not(HasSubstr(kSecret.substr(0, 8))));
    return error.what();
  }
  return "";
}

TEST(Token, IsMadeOnceAndReadFromThenOn) {
  const TemporaryDirectory directory;
  EXPECT_EQ(find_token(directory.path()), std::nullopt);
  const std::string token = load_or_make_token(directory.path());
  EXPECT_THAT(token, MatchesRegex("[0-9a-f]{64}"));
  EXPECT_EQ(load_or_make_token(directory.path()), token);
  EXPECT_EQ(find_token(directory.path()), token);
  struct stat status {};
  ASSERT_EQ(::stat((directory / "token").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777u, 0600u);
  const TemporaryDirectory other;
  EXPECT_NE(load_or_make_token(other.path()), token);
}

TEST(Token, MayBeTheOperatorsOwn) {
  const TemporaryDirectory directory;
  replace_file(directory / "token", " " + kSecret + "\r\n", 0600);
  EXPECT_EQ(load_or_make_token(directory.path()), kSecret);
}

TEST(Token, IsRefusedWhenOthersMayKnowIt) {
  const TemporaryDirectory directory;
  for (const unsigned mode : {0640u, 0604u, 0620u, 0666u}) {
    replace_file(directory / "token", kSecret, mode);
    EXPECT_THAT(refusal(directory), HasSubstr("can be read or written by others: chmod 600 "));
  }
  if (::geteuid() != 0) GTEST_SKIP() << "giving a file away takes root";
  replace_file(directory / "token", kSecret, 0600);
  ASSERT_EQ(::chown((directory / "token").c_str(), 12345, 12345), 0);
  EXPECT_THAT(refusal(directory), HasSubstr("token belongs to user 12345"));
}

TEST(Token, IsRefusedWhenItIsNone) {
  const TemporaryDirectory directory;
  replace_file(directory / "token", "", 0600);
  EXPECT_THAT(refusal(directory), HasSubstr("token holds 0 characters, not 32 to 4096: remove it"));
  replace_file(directory / "token", "short", 0600);
  EXPECT_THAT(refusal(directory), HasSubstr("holds 5 characters"));
  replace_file(directory / "token", kSecret + " " + kSecret, 0600);
  EXPECT_THAT(refusal(directory), HasSubstr("visible ASCII"));
  std::filesystem::remove(directory / "token");
  ASSERT_EQ(::mkfifo((directory / "token").c_str(), 0600), 0);
  EXPECT_THAT(refusal(directory), HasSubstr("is no regular file"));
  std::filesystem::remove(directory / "token");
  std::filesystem::create_symlink("/etc/passwd", directory / "token");
  EXPECT_THAT(refusal(directory), HasSubstr("is a symbolic link"));
}

}  // namespace
}  // namespace caisson::daemon
