#include "backend/native/proc_masks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

namespace caisson::backend::native {
namespace {

using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::IsSupersetOf;
using testing::Not;
using testing::StartsWith;

TEST(ProcMasks, HideWhatTellsOfTheHost) {
  EXPECT_THAT(masked_proc_paths({"cmdline", "interrupts", "locks", "meminfo", "sys", "irq"}),
              IsSupersetOf({"/proc/cmdline", "/proc/interrupts", "/proc/locks", "/proc/irq"}));
}

TEST(ProcMasks, HideWhatAKernelToComeOrAModuleMayShow) {
  EXPECT_THAT(masked_proc_paths({"brand-new"}), Contains("/proc/brand-new"));
}

TEST(ProcMasks, HideTheKernelsMemoryAndKeysWhereverTheyAreNotListed) {
  EXPECT_THAT(masked_proc_paths({}), ElementsAre("/proc/acpi", "/proc/kcore", "/proc/key-users",
                                                 "/proc/keys", "/proc/sched_debug", "/proc/scsi",
                                                 "/proc/sysrq-trigger", "/proc/timer_list"));
}

TEST(ProcMasks, KeepWhatOrdinaryProgramsRead) {
  EXPECT_EQ(masked_proc_paths({"cgroups", "cpuinfo", "filesystems", "loadavg", "meminfo", "stat",
                               "sys", "sysvipc", "tty", "uptime", "version", "vmstat"}),
            masked_proc_paths({}));
}

TEST(ProcMasks, KnowTheEntriesOfThisKernel) {
  const std::vector<std::string> entries = readable_proc_entries();
  EXPECT_THAT(entries, IsSupersetOf({"cmdline", "interrupts", "meminfo", "sys"}));
  for (const char* other : {"1", "self", "mounts", "net", "kmsg"}) {
    EXPECT_THAT(entries, Not(Contains(other)));
  }
  EXPECT_THAT(masked_proc_paths(entries), Each(StartsWith("/proc/")));
}

}  // namespace
}  // namespace caisson::backend::native
