#include "journal/pump.h"

#include <gtest/gtest.h>
#include <pty.h>
#include <sched.h>
#include <sys/mount.h>
#include <termios.h>

#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "async/loop_for_test.h"
#include "async/task_group.h"
#include "base/file.h"
#include "base/temporary_directory.h"
#include "journal/follower.h"
#include "journal/stream_for_test.h"

namespace caisson::journal {
namespace {

namespace asio = boost::asio;

// A journal on a loop of its own, with a pipe into it.
struct Scene {
  explicit Scene(const std::filesystem::path& directory, Limits limits = {})
      : journal(Journal::create(directory, "out", limits)), feed(io.get_executor(), *journal) {
    std::tie(read, write) = make_pipe();
  }
  asio::io_context io;
  Disk disk;
  std::unique_ptr<Journal> journal;
  Feed feed;
  UniqueFd read;
  UniqueFd write;
};

// Reads to the end, and lets go what every reader has.
struct Reader {
  explicit Reader(Feed& feed) : follower(feed, 0) {}
  Follower follower;
  bool sound = true;
  std::uint64_t missed = 0;
};

Task<void> read_all_of(Feed& feed, std::vector<std::unique_ptr<Reader>>& readers, Reader& reader,
                       std::uint32_t seed) {
  std::mt19937 random(seed);
  for (;;) {
    const Chunk chunk = co_await reader.follower.next(1 + random() % 300'000);
    if (chunk.kind == Chunk::Kind::ended) break;
    if (chunk.kind == Chunk::Kind::truncated) reader.missed += chunk.next - chunk.offset;
    reader.sound = reader.sound && is_stream(chunk.bytes, chunk.offset);
    std::uint64_t slowest = reader.follower.offset();
    for (const auto& other : readers) slowest = std::min(slowest, other->follower.offset());
    feed.release_up_to(slowest);
    if (random() % 4 == 0) co_await asio::post(asio::use_awaitable);
  }
}

std::uint64_t write_randomly(UniqueFd pipe, std::uint32_t seed, std::uint64_t at_least) {
  std::mt19937 random(seed);
  std::uint64_t written = 0;
  while (written < at_least) {
    const std::size_t size = 1 + random() % (std::size_t{1} << (random() % 24)) % (9u << 20);
    write_all(pipe.get(), stream_bytes(written, size), "pipe");
    written += size;
  }
  return written;
}

void pump_and_follow(Limits limits, std::uint32_t seed, int reader_count) {
  const TemporaryDirectory directory;
  Scene scene(directory.path(), limits);
  std::uint64_t written = 0;
  std::thread writer([&written, seed, pipe = std::move(scene.write)]() mutable {
    written = write_randomly(std::move(pipe), seed, 12u << 20);
  });
  Pump pump(scene.io.get_executor(), scene.disk, scene.feed, std::move(scene.read));
  TaskGroup tasks(scene.io.get_executor());
  std::vector<std::unique_ptr<Reader>> readers;
  readers.reserve(static_cast<std::size_t>(reader_count));
  for (int i = 0; i < reader_count; ++i) readers.push_back(std::make_unique<Reader>(scene.feed));
  for (const auto& reader : readers) {
    tasks.spawn("read", read_all_of(scene.feed, readers, *reader, seed++));
  }
  run_loop(scene.io, pump.run());
  writer.join();
  EXPECT_EQ(tasks.size(), 0u);
  EXPECT_EQ(scene.journal->end(), written);
  EXPECT_TRUE(scene.journal->closed());
  for (const auto& reader : readers) {
    EXPECT_TRUE(reader->sound);
    EXPECT_EQ(reader->follower.offset(), written);
    if (limits.overflow == Overflow::hold) EXPECT_EQ(reader->missed, 0u);
  }
}

TEST(Pump, DeliversEveryByteToEveryReaderWhenItHolds) {
  for (std::uint32_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(seed);
    pump_and_follow({.capacity = (64u << 10) << seed, .overflow = Overflow::hold}, seed,
                    static_cast<int>(1 + seed % 4));
  }
}

TEST(Pump, DeliversWhatItKeepsToEveryReader) {
  for (std::uint32_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(seed);
    pump_and_follow({.capacity = (64u << 10) << seed}, seed, static_cast<int>(1 + seed % 4));
  }
}

TEST(Pump, LeavesInThePipeWhatItHasNotMovedWhenItIsCancelled) {
  const TemporaryDirectory directory;
  Scene scene(directory.path());
  const UniqueFd kept = duplicate(scene.read.get(), "pipe");
  {
    TaskGroup tasks(scene.io.get_executor());
    Pump pump(scene.io.get_executor(), scene.disk, scene.feed, std::move(scene.read));
    tasks.spawn("pump", pump.run());
    write_all(scene.write.get(), "before", "pipe");
    scene.io.poll();
    write_all(scene.write.get(), " after", "pipe");
    run_loop(scene.io, tasks.stop());
  }
  scene.write.reset();
  UniqueFd again = duplicate(kept.get(), "pipe");
  Pump pump(scene.io.get_executor(), scene.disk, scene.feed, std::move(again));
  scene.io.restart();
  run_loop(scene.io, pump.run());
  EXPECT_EQ(read_journal(*scene.journal, 0, scene.journal->end()), "before after");
}

TEST(Pump, TakesTheOutputOfATerminal) {
  const TemporaryDirectory directory;
  Scene scene(directory.path());
  int master = -1;
  int slave = -1;
  check_syscall("openpty", ::openpty(&master, &slave, nullptr, nullptr, nullptr));
  UniqueFd owned_master(master);
  UniqueFd terminal(slave);
  termios raw{};
  check_syscall("terminal", ::tcgetattr(slave, &raw));
  ::cfmakeraw(&raw);
  check_syscall("terminal", ::tcsetattr(slave, TCSANOW, &raw));
  std::uint64_t written = 0;
  std::thread writer([&, out = std::move(terminal)]() mutable {
    std::mt19937 random(1);
    for (int i = 0; i < 200; ++i) {
      const std::size_t size = 1 + random() % 5000;
      write_all(out.get(), stream_bytes(written, size), "terminal");
      written += size;
    }
  });
  Pump pump(scene.io.get_executor(), scene.disk, scene.feed, std::move(owned_master),
            Through{.read = std::move(scene.read), .write = std::move(scene.write)});
  run_loop(scene.io, pump.run());
  writer.join();
  EXPECT_EQ(scene.journal->end(), written);
  EXPECT_TRUE(holds_stream(*scene.journal));
}

// In a mount namespace of its own: the pump says once that the file system is full and goes on when
// there is space.
int pump_into_a_full_file_system(const std::filesystem::path& directory) {
  check_syscall("mount /", ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr));
  check_syscall("mount", ::mount("tmpfs", directory.c_str(), "tmpfs", 0, "size=1m"));
  const std::string filler = (directory / "filler").native();
  write_all(open_file(filler, O_WRONLY | O_CREAT, 0600).get(), std::string(900u << 10, 'x'),
            filler);
  Scene scene(directory);
  std::thread writer([&] {
    for (std::uint64_t at = 0; at < 800u << 10; at += 8u << 10) {
      write_all(scene.write.get(), stream_bytes(at, 8u << 10), "pipe");
    }
    scene.write.reset();
  });
  int reports = 0;
  asio::steady_timer later(scene.io);
  PumpOptions options{.retry = std::chrono::milliseconds(1)};
  options.on_trouble = [&](const Error& error) {
    ++reports;
    if (error.code() != ErrorCode::storage_full) reports += 100;
    // Not at once: it has to try in vain a few times first.
    later.expires_after(std::chrono::milliseconds(20));
    later.async_wait([&](auto) { ::unlink(filler.c_str()); });
  };
  Pump pump(scene.io.get_executor(), scene.disk, scene.feed, std::move(scene.read), std::nullopt,
            std::move(options));
  run_loop(scene.io, pump.run());
  writer.join();
  if (reports != 1) return 2;
  return scene.journal->end() == 800u << 10 && holds_stream(*scene.journal) ? 0 : 3;
}

TEST(Pump, SaysOnceThatThereIsNoSpaceAndGoesOnWhenThereIs) {
  const TemporaryDirectory directory;
  constexpr int kNotAllowed = 77;
  const pid_t child = fork_process([&] {
    if (::unshare(CLONE_NEWNS) != 0) return kNotAllowed;
    return pump_into_a_full_file_system(directory.path());
  });
  const int status = wait_for_process(child);
  if (status == kNotAllowed) GTEST_SKIP() << "no mount namespace of its own: run it as root";
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace caisson::journal
