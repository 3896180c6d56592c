// One box with default limits takes all it gets; another box, a new box and root on the host go on
// with their work meanwhile. Times are printed, not judged: the machine may be busy.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "../faults/host_state.h"
#include "base/error.h"
#include "base/file.h"
#include "base/str.h"
#include "isolation.h"

namespace caisson::security_test {
namespace {

using Milliseconds = std::chrono::duration<double, std::milli>;

constexpr int kRounds = 5;

class HostileBox : public Isolation {
 protected:
  std::unique_ptr<backend::Box> make_box(model::BoxSettings box_spec) {
    return finish(backend_->create(std::move(box_spec)));
  }

  // The median time of some rounds, each of which has to succeed.
  template <typename Work>
  static double time_of(Work work) {
    std::vector<double> times;
    for (int round = 0; round < kRounds; ++round) {
      const auto begin = std::chrono::steady_clock::now();
      work();
      times.push_back(Milliseconds(std::chrono::steady_clock::now() - begin).count());
    }
    std::sort(times.begin(), times.end());
    return times[kRounds / 2];
  }

  struct Times {
    double neighbour = 0;
    double new_box = 0;
    double host = 0;
  };
  Times work_of_others(backend::Box& neighbour) {
    Times times;
    times.neighbour = time_of([&] { expect_work(neighbour); });
    times.new_box = time_of([&] {
      const std::unique_ptr<backend::Box> box = make_box(spec());
      expect_work(*box);
      destroy(*box);
    });
    times.host = time_of([&] {
      const HostRun done = run_payload_on_host({"daily-work", directory_.path().native(), "host"});
      EXPECT_EQ(done.output, "done\n");
    });
    return times;
  }

  void expect_work(backend::Box& box) {
    const backend::RunResult done = run_payload(box, {"daily-work", "/tmp"});
    EXPECT_EQ(done.out.data, "done\n") << done.err.data;
  }

  struct Attacker {
    UniqueFd hold;
    UniqueFd output;
    std::unique_ptr<backend::Process> process;
  };
  Attacker attack(backend::Box& box, std::vector<std::string> words) {
    auto [input, hold] = make_pipe();
    auto [output, output_end] = make_pipe();
    backend::ProcessSpec attacker;
    attacker.argv = {kPayload};
    attacker.argv.insert(attacker.argv.end(), words.begin(), words.end());
    attacker.env = backend::default_environment();
    backend::Stdio stdio{std::move(input), std::move(output_end), open_file("/dev/null", O_WRONLY)};
    auto process = finish(box.start(std::move(attacker), std::move(stdio)));
    return {std::move(hold), std::move(output), std::move(process)};
  }

  // What the attacker says until it has tried everything.
  static std::string read_until(int fd, std::string_view last) {
    std::string said;
    char letter = 0;
    while (!said.ends_with(last) && ::read(fd, &letter, 1) == 1) said.push_back(letter);
    return said;
  }

  static void print(const char* whose, double quiet, double attacked) {
    std::printf("%-14s quiet %7.2f ms, attacked %7.2f ms, ratio %.2f\n", whose, quiet, attacked,
                attacked / quiet);
  }

  model::BoxSettings hostile_spec() const {
    model::BoxSettings box_spec = spec();
    if (reason_to_skip("I12").empty()) box_spec.network = model::NetworkMode::on;
    return box_spec;
  }

  // Of what could be left, that which nobody else on this host makes or removes.
  faults::HostState own_state(const std::string& owner) const {
    faults::HostState state = faults::observe(directory_.path());
    state.namespaces.clear();
    state.links.clear();
    state.files.clear();
    std::erase_if(state.cgroups, [&](const std::string& path) {
      return path.find(str("/caisson-", owner)) == std::string::npos;
    });
    return state;
  }

  const TemporaryDirectory directory_{0755};
  std::unique_ptr<backend::native::Native> backend_ = make_backend(options());
};

// "native-7-box-1"
std::string owner_of(const backend::Box& box) {
  const std::string id = box.id().substr(box.id().find('-') + 1);
  return id.substr(0, id.find('-'));
}

TEST_F(HostileBox, TakesNothingThatAnotherBoxANewBoxOrTheHostNeeds) {
  if (::geteuid() != 0) GTEST_SKIP() << "boxes of an ordinary user share the user's own counts";
  faults::HostState before = own_state("-");
  before.descriptors = 0;
  const std::unique_ptr<backend::Box> neighbour = make_box(spec());
  const std::string owner = owner_of(*neighbour);
  const Times quiet = work_of_others(*neighbour);

  const std::unique_ptr<backend::Box> hostile = make_box(hostile_spec());
  Attacker attacker = attack(*hostile, {"exhaust"});
  const std::string said = read_until(attacker.output.get(), "exhausted\n");
  std::printf("%s", said.c_str());
  ASSERT_TRUE(said.ends_with("exhausted\n"));
  const Times attacked = work_of_others(*neighbour);
  print("another box", quiet.neighbour, attacked.neighbour);
  print("a new box", quiet.new_box, attacked.new_box);
  print("host's root", quiet.host, attacked.host);
  attacker.hold.reset();
  finish(attacker.process->wait());

  // On a file that is there: the box has no room left for another.
  Attacker hoarder = attack(*hostile, {"hold-locks", "/dev/shm/full", "1000000"});
  EXPECT_THROW(finish(hoarder.process->wait()), Error) << "it is not ended for its locks";
  attacker = {};
  hoarder = {};
  expect_work(*neighbour);
  destroy(*hostile);
  destroy(*neighbour);
  finish(backend_->stop());
  faults::HostState after = own_state(owner);
  after.descriptors = 0;
  EXPECT_EQ(faults::leftovers(before, after), "");
}

}  // namespace
}  // namespace caisson::security_test
