#include "session/script_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"

namespace caisson::session {
namespace {

// What a process gets that opens the file by its name in /proc, as a payload may.
UniqueFd opened_by_others(const ScriptFile& file) {
  return UniqueFd(::open(str("/proc/self/fd/", file.fd()).c_str(), O_RDWR | O_CLOEXEC));
}

TEST(ScriptFile, HoldsWhatIsWrittenAndNothingElse) {
  ScriptFile file = ScriptFile::make();
  const UniqueFd reader = open_file(str("/proc/self/fd/", file.fd()), O_RDONLY);
  ASSERT_TRUE(file.write("echo one\n"));
  EXPECT_EQ(read_all(reader.get(), "script", 1 << 20), "echo one\n");
}

TEST(ScriptFile, IsNeverWrittenByThoseWhoHoldItBefore) {
  ScriptFile file = ScriptFile::make();
  const UniqueFd other = opened_by_others(file);
  ASSERT_TRUE(other);
  EXPECT_EQ(::pwrite(other.get(), "x", 1, 0), -1);
  EXPECT_EQ(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, other.get(), 0), MAP_FAILED);
  void* seen = ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, other.get(), 0);
  ASSERT_NE(seen, MAP_FAILED);
  EXPECT_EQ(::mprotect(seen, 4096, PROT_READ | PROT_WRITE), -1);
  ASSERT_TRUE(file.write("echo one\n"));
  EXPECT_EQ(::pwrite(other.get(), "x", 1, 0), -1);
  EXPECT_EQ(::ftruncate(other.get(), 4), -1);
  EXPECT_EQ(::fallocate(other.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), -1);
  EXPECT_EQ(::mprotect(seen, 4096, PROT_READ | PROT_WRITE), -1);
  EXPECT_EQ(std::string_view(static_cast<const char*>(seen), 9), "echo one\n");
  ::munmap(seen, 4096);
}

TEST(ScriptFile, IsRefusedWhenOthersHaveGivenItASize) {
  ScriptFile file = ScriptFile::make();
  const UniqueFd other = opened_by_others(file);
  ASSERT_EQ(::ftruncate(other.get(), 1 << 20), 0);
  EXPECT_FALSE(file.write("echo one\n"));
}

TEST(ScriptFile, IsRefusedWhenOthersHaveSealedIt) {
  ScriptFile file = ScriptFile::make();
  const UniqueFd other = opened_by_others(file);
  ASSERT_EQ(::fcntl(other.get(), F_ADD_SEALS, F_SEAL_SEAL), 0);
  EXPECT_FALSE(file.write("echo one\n"));
}

TEST(ScriptFile, RefusesWhatIsTooLong) {
  ScriptFile file = ScriptFile::make();
  EXPECT_FALSE(file.write(std::string(ScriptFile::kMost + 1, 'x')));
  EXPECT_TRUE(ScriptFile::make().write(std::string(ScriptFile::kMost, 'x')));
}

}  // namespace
}  // namespace caisson::session
