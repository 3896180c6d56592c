#include "backend/native/cgroup_limits.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cmath>
#include <fstream>

#include "base/error.h"
#include "base/file.h"
#include "base/temporary_directory.h"

namespace caisson::backend::native {
namespace {

using testing::HasSubstr;

TEST(CpuBandwidth, GivesTheShareOfAPeriod) {
  EXPECT_EQ(cpu_bandwidth(1), (CpuBandwidth{100'000, 100'000}));
  EXPECT_EQ(cpu_bandwidth(0.5), (CpuBandwidth{50'000, 100'000}));
  EXPECT_EQ(cpu_bandwidth(0.29), (CpuBandwidth{29'000, 100'000}));
  EXPECT_EQ(cpu_bandwidth(2.5), (CpuBandwidth{250'000, 100'000}));
}

TEST(CpuBandwidth, StretchesThePeriodForAShareBelowTheKernelsLeastQuota) {
  EXPECT_EQ(cpu_bandwidth(0.01), (CpuBandwidth{1'000, 100'000}));
  EXPECT_EQ(cpu_bandwidth(0.005), (CpuBandwidth{5'000, 1'000'000}));
  EXPECT_EQ(cpu_bandwidth(0.0000001), (CpuBandwidth{1'000, 1'000'000}));
}

TEST(CpuBandwidth, RefusesWhatIsNoShare) {
  EXPECT_THROW(cpu_bandwidth(0), Error);
  EXPECT_THROW(cpu_bandwidth(-1), Error);
  EXPECT_THROW(cpu_bandwidth(std::nan("")), Error);
  EXPECT_NO_THROW(cpu_bandwidth(INFINITY));
}

TEST(FindValue, MatchesTheWholeKey) {
  constexpr std::string_view events = "low 0\noom 4\noom_kill 3\noom_group_kill 1\n";
  EXPECT_EQ(find_value(events, "oom_kill"), 3u);
  EXPECT_EQ(find_value(events, "oom"), 4u);
  EXPECT_EQ(find_value(events, "kill"), std::nullopt);
}

// A directory of plain files that stands in for one cgroup.
class FakeCgroup : public testing::Test {
 protected:
  void add(const char* file, std::string_view content = "") {
    std::ofstream(path_ / file) << content;
  }
  std::string content(const char* file) { return read_file(path_ / file); }

  const TemporaryDirectory temporary_;
  const std::filesystem::path path_ = temporary_.path();
  const UniqueFd directory_ = open_file(path_, O_PATH | O_DIRECTORY);
};

TEST_F(FakeCgroup, V2MemoryLimitForbidsSwap) {
  add("memory.max");
  add("memory.swap.max");
  limit_memory(directory_.get(), CgroupVersion::v2, {.swap = true}, 64u << 20);
  EXPECT_EQ(content("memory.max"), "67108864");
  EXPECT_EQ(content("memory.swap.max"), "0");
}

TEST_F(FakeCgroup, V1MemoryLimitCountsSwapToo) {
  add("memory.limit_in_bytes");
  add("memory.memsw.limit_in_bytes");
  limit_memory(directory_.get(), CgroupVersion::v1, {.swap = true}, 64u << 20);
  EXPECT_EQ(content("memory.limit_in_bytes"), "67108864");
  EXPECT_EQ(content("memory.memsw.limit_in_bytes"), "67108864");
}

TEST_F(FakeCgroup, V1MemoryLimitBoundsTheBuffersOfSockets) {
  add("memory.limit_in_bytes");
  add("memory.kmem.tcp.limit_in_bytes");
  limit_memory(directory_.get(), CgroupVersion::v1, {.tcp = true}, 64u << 20);
  EXPECT_EQ(content("memory.kmem.tcp.limit_in_bytes"), "16777216");
}

TEST(TcpBytes, AreAQuarterOfTheMemoryButEnoughForAConnection) {
  EXPECT_EQ(tcp_bytes(512u << 20), 128u << 20);
  EXPECT_EQ(tcp_bytes(8u << 20), 4u << 20);
}

TEST_F(FakeCgroup, V2ProcessorAndProcessLimitsAreOneFileEach) {
  add("cpu.max");
  add("pids.max");
  limit_cpus(directory_.get(), CgroupVersion::v2, cpu_bandwidth(0.5));
  limit_pids(directory_.get(), 64);
  EXPECT_EQ(content("cpu.max"), "50000 100000");
  EXPECT_EQ(content("pids.max"), "64");
}

TEST_F(FakeCgroup, ALimitThatReadsDifferentlyAfterwardsIsRefused) {
  add("pids.max", "max\n");  // a plain file keeps what the value does not overwrite
  try {
    limit_pids(directory_.get(), 64);
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::isolation_unavailable);
    EXPECT_THAT(error.what(), HasSubstr("pids.max cannot be set to 64: it reads 64x afterwards"));
  }
}

TEST_F(FakeCgroup, ALimitWithoutItsFileIsRefused) {
  try {
    limit_memory(directory_.get(), CgroupVersion::v2, {}, 4096);
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::isolation_unavailable);
    EXPECT_THAT(error.what(), HasSubstr("memory.max"));
  }
}

TEST_F(FakeCgroup, NumbersAreReadAndMaxIsNone) {
  add("pids.current", "7\n");
  add("memory.max", "max\n");
  EXPECT_EQ(find_number(directory_.get(), "pids.current"), 7u);
  EXPECT_EQ(find_number(directory_.get(), "memory.max"), std::nullopt);
  EXPECT_EQ(find_number(directory_.get(), "memory.peak"), std::nullopt);
}

}  // namespace
}  // namespace caisson::backend::native
