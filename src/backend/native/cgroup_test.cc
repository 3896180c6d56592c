#include "backend/native/cgroup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <ctime>
#include <fstream>

#include "backend/native/cgroup_place.h"
#include "base/child_process.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/str.h"
#include "base/temporary_directory.h"
#include "base/text.h"

namespace caisson::backend::native {
namespace {

using model::Layer;
using model::LayerState;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using testing::UnorderedElementsAre;

constexpr std::uint64_t kMemory = 16u << 20;

bool enter(std::span<const int> fds) {
  for (const int fd : fds) {
    if (::write(fd, "0", 1) != 1) return false;
  }
  return true;
}

bool enter(const std::vector<UniqueFd>& entries) {
  return std::all_of(entries.begin(), entries.end(),
                     [](const UniqueFd& entry) { return ::write(entry.get(), "0", 1) == 1; });
}

// Runs `body` in a forked child; its result is the exit code.
template <typename Body>
ChildProcess fork_child(Body body) {
  const pid_t pid = check_syscall("fork", ::fork());
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::_exit(body());
  }
  return ChildProcess(pid, UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))));
}

// A child that is inside the group when this returns, and stays there.
ChildProcess inhabit(const std::vector<UniqueFd>& group) {
  auto [ready, entered] = make_pipe();
  ChildProcess child = fork_child([&] {
    if (!enter(group) || ::write(entered.get(), "x", 1) != 1) return 1;
    ::close_range(3, ~0u, 0);  // an owner's locks among them
    for (;;) ::pause();
  });
  entered.reset();
  char byte = 0;
  EXPECT_EQ(::read(ready.get(), &byte, 1), 1) << "the child could not enter";
  return child;
}

ChildProcess inhabit(const BoxCgroup& box) {
  return inhabit(box.open_entries());
}

// Processes leave their groups a moment after they are seen to have ended.
template <typename Condition>
bool becomes(Condition condition) {
  const Deadline deadline = Clock::now() + std::chrono::seconds(60);
  while (!condition() && Clock::now() < deadline) ::usleep(1000);
  return condition();
}

bool killed(ChildProcess& child) {
  const int status = child.wait();
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

// The control groups of this machine.
class CgroupTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const model::LayerReport& report : report_limits(host_)) {
      if (report.state != LayerState::in_force) {
        GTEST_SKIP() << to_string(report.layer) << ": " << report.detail << "; " << report.fix;
      }
    }
  }

  std::filesystem::path directory_of(Controller controller, std::string_view owner) const {
    const CgroupPlace place = choose_place(*host_.find(controller));
    return place.directory / str(kOwnerPrefix, owner);
  }
  std::string control(Controller controller, const char* v1_file, const char* v2_file) const {
    const bool unified = host_.find(controller)->version == CgroupVersion::v2;
    return read_file(directory_of(controller, owner_) / "box" / (unified ? v2_file : v1_file));
  }
  bool left_behind(std::string_view owner) const {
    for (const CgroupHierarchy& hierarchy : host_.hierarchies) {
      if (std::filesystem::exists(hierarchy.base / str(kOwnerPrefix, owner))) return true;
      if (!hierarchy.top.empty() &&
          std::filesystem::exists(hierarchy.top / str(kOwnerPrefix, owner)))
        return true;
    }
    return false;
  }

  CgroupHost host_ = inspect_cgroups();
  const std::string owner_ = str("test-", ::getpid());
};

TEST_F(CgroupTest, SetsTheLimitsOfABox) {
  const CgroupOwner owner(host_, owner_);
  const BoxCgroup box = owner.create("box", {.memory_bytes = kMemory + 1, .cpus = 0.5, .pids = 7});
  EXPECT_THAT(box.enforced(),
              UnorderedElementsAre(Layer::memory_limit, Layer::pids_limit, Layer::cpu_limit));
  EXPECT_EQ(trim(control(Controller::memory, "memory.limit_in_bytes", "memory.max")),
            std::to_string(kMemory));
  if (host_.find(Controller::memory)->version == CgroupVersion::v1) {
    EXPECT_EQ(trim(control(Controller::memory, "memory.kmem.tcp.limit_in_bytes", "")),
              std::to_string(tcp_bytes(kMemory)));
  }
  EXPECT_EQ(trim(control(Controller::pids, "pids.max", "pids.max")), "7");
  EXPECT_THAT(control(Controller::cpu, "cpu.cfs_quota_us", "cpu.max"), HasSubstr("50000"));
  EXPECT_EQ(box.open_entries().size(), owner.directory_fds().size());
  EXPECT_EQ(box.open_entries().size(), owner.home_fds().size());
}

TEST_F(CgroupTest, EnforcesOnlyWhatWasAskedFor) {
  const CgroupOwner owner(host_, owner_);
  EXPECT_THAT(owner.create("free", {}).enforced(), testing::IsEmpty());
  EXPECT_THAT(owner.create("box", {.pids = 7}).enforced(), UnorderedElementsAre(Layer::pids_limit));
}

TEST_F(CgroupTest, GivesABoxNoMoreProcessorsThanItsAncestorsHave) {
  const CgroupHierarchy& cpu = *host_.find(Controller::cpu);
  if (cpu.version == CgroupVersion::v2) GTEST_SKIP() << "only v1 refuses to nest a larger quota";
  const CgroupOwner owner(host_, owner_);
  const BoxCgroup half = owner.create("box", {.cpus = 0.5});
  CgroupHost nested{.mode = CgroupMode::v1, .hierarchies = {cpu}};
  nested.hierarchies[0].base = directory_of(Controller::cpu, owner_) / "box";
  const CgroupOwner inner_owner(nested, "inner");
  const BoxCgroup inner = inner_owner.create("inner", {.cpus = 2});
  EXPECT_THAT(inner.enforced(), UnorderedElementsAre(Layer::cpu_limit));
  EXPECT_EQ(read_file(nested.hierarchies[0].base / "caisson-inner/inner/cpu.cfs_quota_us"),
            "50000\n");
}

TEST_F(CgroupTest, AProcessEntersThroughTheEntriesAndComesBackThroughTheHomeFds) {
  const CgroupOwner owner(host_, owner_);
  BoxCgroup box = owner.create("box", {.pids = 7});
  const std::string before = read_file("/proc/self/cgroup");
  auto [in, out] = make_pipe();
  ChildProcess child = fork_child([&] {
    if (!enter(box.open_entries())) return 1;
    const std::string inside = read_file("/proc/self/cgroup");
    if (!enter(owner.home_fds())) return 2;
    write_all(out.get(), inside, "pipe");
    return read_file("/proc/self/cgroup") == before ? 0 : 3;
  });
  EXPECT_EQ(child.wait(), 0);
  out.reset();
  const std::string inside = read_all(in.get(), "pipe");
  std::size_t found = 0;
  for (std::size_t at = 0;
       (at = inside.find(str("/caisson-", owner_, "/box\n"), at)) != inside.npos;) {
    ++found;
    ++at;
  }
  EXPECT_EQ(found, box.open_entries().size()) << inside;
  EXPECT_TRUE(box.try_remove());
}

TEST_F(CgroupTest, CountsWhatTheKernelKillsForMemory) {
  const CgroupOwner owner(host_, owner_);
  const BoxCgroup box = owner.create("box", {.memory_bytes = kMemory});
  EXPECT_EQ(box.oom_kills(), 0u);
  ChildProcess child = fork_child([&] {
    if (!enter(box.open_entries())) return 1;
    constexpr std::size_t size = 4 * kMemory;
    void* memory =
        ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return 2;
    for (std::size_t i = 0; i < size; i += 4096) static_cast<volatile char*>(memory)[i] = 1;
    return 0;
  });
  EXPECT_TRUE(killed(child));
  EXPECT_EQ(box.oom_kills(), 1u);
  EXPECT_EQ(box.usage().peak_memory_bytes, kMemory);
}

TEST_F(CgroupTest, AForkBeyondTheLimitFails) {
  const CgroupOwner owner(host_, owner_);
  const BoxCgroup box = owner.create("box", {.pids = 3});
  ChildProcess child = fork_child([&] {
    if (!enter(box.open_entries())) return 100;
    std::vector<pid_t> children;
    int refusal = 0;
    while (children.size() < 10 && refusal == 0) {
      const pid_t pid = ::fork();
      if (pid == 0) {
        for (;;) ::pause();
      }
      if (pid < 0) refusal = errno;
      if (pid > 0) children.push_back(pid);
    }
    for (const pid_t pid : children) {
      if (::kill(pid, SIGKILL) < 0 || ::waitpid(pid, nullptr, 0) != pid) return 101;
    }
    return refusal == EAGAIN ? static_cast<int>(children.size()) : 102;
  });
  const int status = child.wait();
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 2) << "itself and two more";
}

TEST_F(CgroupTest, TellsWhatABoxUses) {
  const CgroupOwner owner(host_, owner_);
  BoxCgroup box = owner.create("box", {.memory_bytes = 4 * kMemory});
  ChildProcess worker = fork_child([&] {
    if (!enter(box.open_entries())) return 1;
    const std::clock_t end = std::clock() + CLOCKS_PER_SEC / 50;
    while (std::clock() < end) {
    }
    return 0;
  });
  EXPECT_EQ(worker.wait(), 0);
  ChildProcess idler = inhabit(box);
  const CgroupUsage usage = box.usage();
  EXPECT_EQ(usage.processes, 1u);
  EXPECT_GT(usage.peak_memory_bytes, 0u);
  EXPECT_GE(usage.peak_memory_bytes, usage.memory_bytes);
  EXPECT_GE(usage.cpu_time.value_or(std::chrono::microseconds(0)).count(), 10'000);
}

TEST_F(CgroupTest, KillsEveryProcessOfABoxAndRemovesIt) {
  const CgroupOwner owner(host_, owner_);
  BoxCgroup box = owner.create("box", {});
  ChildProcess first = inhabit(box);
  ChildProcess second = inhabit(box);
  EXPECT_FALSE(box.try_remove()) << "processes are inside";
  EXPECT_TRUE(box.kill_all());
  EXPECT_TRUE(killed(first));
  EXPECT_TRUE(killed(second));
  EXPECT_TRUE(box.try_remove());
  EXPECT_TRUE(box.try_remove());
  EXPECT_TRUE(box.kill_all());
  EXPECT_EQ(box.usage().processes, 0u);
}

TEST_F(CgroupTest, KillsPidByPidWhereTheKernelCannotKillInOneStroke) {
  std::erase_if(host_.hierarchies, [](const CgroupHierarchy& hierarchy) {
    return hierarchy.version == CgroupVersion::v2;
  });
  if (host_.hierarchies.empty()) GTEST_SKIP() << "this host has no v1 hierarchy";
  const CgroupOwner owner(host_, owner_);
  BoxCgroup box = owner.create("box", {});
  ChildProcess first = inhabit(box);
  ChildProcess second = inhabit(box);
  EXPECT_TRUE(box.kill_all());
  EXPECT_TRUE(killed(first));
  EXPECT_TRUE(killed(second));
  EXPECT_TRUE(box.try_remove());
}

TEST_F(CgroupTest, KillsAGroupAndNobodyElse) {
  const CgroupOwner owner(host_, owner_);
  BoxCgroup box = owner.create("box", {.memory_bytes = kMemory, .pids = 50});
  EXPECT_EQ(box.kill_group(1), std::nullopt);
  for (const std::uint64_t memory : {std::uint64_t{0}, 2 * kMemory}) {
    const std::uint64_t id = memory == 0 ? 1 : 2;
    ChildProcess other = inhabit(box);
    ChildProcess member = inhabit(box.make_group(id, memory));
    EXPECT_NE(box.kill_group(id), std::nullopt);
    EXPECT_TRUE(killed(member));
    EXPECT_EQ(box.kill_group(id), true) << "nobody is left";
    EXPECT_TRUE(other.running());
    box.remove_group(id);
    EXPECT_EQ(box.kill_group(id), std::nullopt);
    EXPECT_TRUE(box.kill_all());
    EXPECT_TRUE(killed(other));
  }
  EXPECT_TRUE(box.try_remove());
}

TEST_F(CgroupTest, AGroupWithMemoryOfItsOwnIsNotBoundByThatOfItsBox) {
  const CgroupOwner owner(host_, owner_);
  BoxCgroup box = owner.create("box", {.memory_bytes = kMemory});
  const auto use = [&](const std::vector<UniqueFd>& group, std::size_t size) {
    ChildProcess child = fork_child([&] {
      if (!enter(group)) return 1;
      void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
      return memory == MAP_FAILED ? 2 : 0;
    });
    const int status = child.wait();
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  };
  EXPECT_EQ(use(box.make_group(1, 4 * kMemory), 2 * kMemory), 0);
  EXPECT_EQ(box.oom_kills(), 0u);
  EXPECT_EQ(use(box.make_group(2, kMemory / 2), kMemory), 128 + SIGKILL);
  EXPECT_EQ(box.oom_kills(), 1u);
  box.remove_group(2);
  EXPECT_EQ(box.oom_kills(), 1u) << "it is not forgotten with its group";
  EXPECT_TRUE(box.try_remove());
}

TEST_F(CgroupTest, TheNextOwnerFindsTheGroupsOfABox) {
  CgroupOwner owner(host_, owner_);
  BoxCgroup box = owner.create("box", {.memory_bytes = kMemory});
  ChildProcess within = inhabit(box.make_group(3, 0));
  ChildProcess beside = inhabit(box.make_group(12, kMemory));
  BoxCgroup other = owner.create("other", {});
  ChildProcess stranger = inhabit(other.make_group(7, kMemory));
  other.abandon();
  CgroupOwner::Found found = owner.find_boxes();
  EXPECT_THAT(found,
              UnorderedElementsAre(Pair("box", ElementsAre(12)), Pair("other", ElementsAre(7))));
  BoxCgroup adopted = owner.adopt("box", {.memory_bytes = kMemory}, found.at("box"));
  found.erase("box");
  owner.remove_boxes(found);
  EXPECT_TRUE(killed(stranger));
  EXPECT_TRUE(becomes([&] {
    owner.remove_boxes(found);
    return owner.find_boxes().size() == 1;
  }));
  EXPECT_NE(adopted.kill_group(3), std::nullopt);
  EXPECT_NE(adopted.kill_group(12), std::nullopt);
  EXPECT_TRUE(killed(within));
  EXPECT_TRUE(killed(beside));
  box.abandon();
  EXPECT_TRUE(adopted.try_remove());
  EXPECT_TRUE(owner.remove());
}

// An owner makes a group before the guest hears of its process, and may be killed in between.
TEST_F(CgroupTest, AGroupThatNobodySpeaksOfIsInNobodysWay) {
  CgroupOwner owner(host_, owner_);
  BoxCgroup box = owner.create("box", {.memory_bytes = kMemory});
  box.make_group(3, 0);
  ChildProcess stranger = inhabit(box.make_group(4, kMemory));
  box.make_group(5, kMemory);
  BoxCgroup adopted = owner.adopt("box", {.memory_bytes = kMemory}, owner.find_boxes().at("box"));
  adopted.retain_groups({3});
  EXPECT_TRUE(killed(stranger));
  EXPECT_TRUE(becomes([&] { return adopted.retain_groups({3}) == 3; }));
  EXPECT_EQ(adopted.make_group(5, kMemory).size(), adopted.open_entries().size());
  box.abandon();
  EXPECT_TRUE(adopted.try_remove());
  EXPECT_TRUE(owner.remove());
}

TEST_F(CgroupTest, LeavesNothingBehind) {
  {
    CgroupOwner owner(host_, owner_);
    BoxCgroup box = owner.create("box", {.pids = 7});
    BoxCgroup moved = std::move(box);
    EXPECT_TRUE(left_behind(owner_));
    EXPECT_FALSE(owner.remove()) << "a box is inside";
    EXPECT_TRUE(moved.try_remove());
    EXPECT_TRUE(owner.remove());
    EXPECT_TRUE(owner.remove());
  }
  EXPECT_FALSE(left_behind(owner_));
}

TEST_F(CgroupTest, ABoxThatCannotBeMadeLeavesNothing) {
  const CgroupOwner owner(host_, owner_);
  EXPECT_THROW(owner.create("../box", {}), Error);
  EXPECT_THROW(owner.create("memory.max", {}), Error);
  EXPECT_THROW(owner.create("box", {.pids = 1ull << 60}), Error) << "more than the kernel takes";
  const BoxCgroup box = owner.create("box", {});
  EXPECT_THROW(owner.create("box", {}), Error);
  EXPECT_FALSE(control(Controller::pids, "pids.max", "pids.max").empty()) << "the first one stays";
}

TEST_F(CgroupTest, SweepRemovesWhatADeadOwnerLeftAndNothingElse) {
  const std::string dead_name = str(owner_, "-dead");
  ChildProcess orphan;
  {
    const CgroupOwner dead(host_, dead_name);
    orphan = inhabit(dead.create("box", {.pids = 7}));
  }
  ASSERT_TRUE(left_behind(dead_name)) << "a process is inside";
  const CgroupOwner live(host_, owner_);
  const BoxCgroup box = live.create("box", {});
  ChildProcess resident = inhabit(box);

  const auto is_live = [&](std::string_view owner) { return owner != dead_name; };
  EXPECT_EQ(CgroupOwner::sweep(host_, is_live), std::set<std::string>{dead_name});
  EXPECT_TRUE(orphan.kill(0)) << "what lives ends by itself";
  orphan.kill(SIGKILL);
  EXPECT_TRUE(killed(orphan));
  EXPECT_TRUE(CgroupOwner::sweep(host_, is_live).empty());
  EXPECT_FALSE(left_behind(dead_name));
  EXPECT_TRUE(left_behind(owner_));
  EXPECT_TRUE(resident.kill(0)) << "still there";
}

// A tree of plain files that stands in for a delegated scope of the unified hierarchy. What the
// kernel would put into a new cgroup is there beforehand.
class UnifiedOwner : public testing::Test {
 protected:
  UnifiedOwner() {
    std::filesystem::create_directory(scope_ / "caisson-x");
    std::filesystem::create_directory(scope_ / "caisson-x.home");
    write("cgroup.controllers", "cpu memory pids\n");
    write("cgroup.type", "domain\n");
    write("cgroup.procs", str(::getpid(), "\n"));
    for (const char* file : {"cgroup.subtree_control", "caisson-x/cgroup.subtree_control",
                             "caisson-x.home/cgroup.procs"}) {
      write(file, "");
    }
    host_.mode = CgroupMode::v2;
    host_.hierarchies = {{.version = CgroupVersion::v2,
                          .controllers = {Controller::memory, Controller::pids, Controller::cpu},
                          .own = scope_,
                          .base = scope_}};
  }

  void write(const char* file, std::string_view content) {
    std::ofstream(scope_ / file) << content;
  }

  const TemporaryDirectory temporary_;
  const std::filesystem::path scope_ = temporary_.path();
  CgroupHost host_;
};

TEST_F(UnifiedOwner, MovesTheProcessToALeafAndEnablesControllersDownToTheBoxes) {
  const CgroupOwner owner(host_, "x");
  EXPECT_EQ(read_file(scope_ / "caisson-x.home/cgroup.procs"), "0");
  EXPECT_EQ(read_file(scope_ / "cgroup.subtree_control"), "+memory +pids +cpu");
  EXPECT_EQ(read_file(scope_ / "caisson-x/cgroup.subtree_control"), "+memory +pids +cpu");
  for (const model::LayerReport& report : owner.reports()) {
    EXPECT_EQ(report.state, LayerState::in_force) << to_string(report.layer) << report.detail;
  }
}

TEST_F(UnifiedOwner, DoesNotCallMemoryLimitedWhileABoxCanSwap) {
  host_.has_swap = true;
  const CgroupOwner owner(host_, "x");
  EXPECT_EQ(owner.reports()[0].state, LayerState::missing);
  EXPECT_THAT(owner.reports()[0].fix, HasSubstr("swapoff"));
}

TEST_F(UnifiedOwner, DoesNotCallMemoryLimitedWhenTheKernelCountsOnlyPartOfIt) {
  for (const char* off : {"nokmem", "nosocket"}) {
    CgroupHost host = host_;
    read_kernel_words(str("quiet cgroup.memory=", off, " ro\n"), host);
    const CgroupOwner owner(host, "x");
    EXPECT_EQ(owner.reports()[0].state, LayerState::missing);
    EXPECT_THAT(owner.reports()[0].fix, HasSubstr(str("boot without cgroup.memory=", off)));
  }
}

// Plain files again, of a version 1 whose kernel has no limit for buffers of sockets.
TEST(CgroupOwner, DoesNotCallMemoryLimitedWhileSocketsOnVersionOneAreNot) {
  const TemporaryDirectory temporary;
  const std::filesystem::path own = temporary.path();
  std::filesystem::create_directory(own / "caisson-x");
  for (const char* file : {"tasks", "cgroup.procs"}) std::ofstream(own / file) << "";
  CgroupHost host;
  host.mode = CgroupMode::v1;
  host.hierarchies = {
      {.version = CgroupVersion::v1, .controllers = {Controller::memory}, .own = own, .base = own}};
  {
    const CgroupOwner owner(host, "x");
    EXPECT_EQ(owner.reports()[0].state, LayerState::missing);
    EXPECT_THAT(owner.reports()[0].fix, HasSubstr("version 2"));
  }
  std::filesystem::create_directories(own / "caisson-x");
  std::ofstream(own / "caisson-x/memory.kmem.tcp.limit_in_bytes") << "";
  const CgroupOwner owner(host, "x");
  EXPECT_EQ(owner.reports()[0].state, LayerState::in_force);
}

TEST_F(UnifiedOwner, ReportsWhyAHierarchyCouldNotBeHad) {
  std::filesystem::remove(scope_ / "caisson-x.home/cgroup.procs");
  const CgroupOwner owner(host_, "x");
  EXPECT_TRUE(owner.directory_fds().empty());
  EXPECT_EQ(owner.reports()[0].state, LayerState::missing);
  EXPECT_THAT(owner.reports()[0].detail, HasSubstr("caisson-x.home/cgroup.procs"));
  EXPECT_THAT(owner.create("box", {.memory_bytes = kMemory}).enforced(), testing::IsEmpty());
}

TEST(CgroupOwner, RefusesANameThatIsNoPlainWord) {
  EXPECT_THROW(CgroupOwner(CgroupHost{}, "a/b"), Error);
  EXPECT_THROW(CgroupOwner(CgroupHost{}, "a.home"), Error);
  EXPECT_THROW(CgroupOwner(CgroupHost{}, ""), Error);
}

}  // namespace
}  // namespace caisson::backend::native
