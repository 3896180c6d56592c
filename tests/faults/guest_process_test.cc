// The real guest program against an owner that breaks the protocol: malformed packets are answered
// or end the program, but never crash it, hang it or cost the owner a descriptor.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/nsfs.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <cstdint>
#include <filesystem>
#include <iterator>
#include <optional>
#include <random>

#include "backend/guest_image.h"
#include "base/child_process.h"
#include "base/error.h"
#include "base/file.h"
#include "base/seqpacket.h"
#include "base/str.h"
#include "wire/guest.h"
#include "wire/launch.h"
#include "wire/samples_for_test.h"

namespace caisson {
namespace {

constexpr int kBoundMs = 20'000;  // how long anything that does come may take

long open_descriptors() {
  const std::filesystem::directory_iterator entries("/proc/self/fd");
  return std::distance(begin(entries), end(entries));
}

bool readable(int fd) {
  pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
  int ready = 0;
  do {
    ready = ::poll(&entry, 1, kBoundMs);
  } while (ready < 0 && errno == EINTR);
  return ready > 0;
}

// The status of a process that has to end by itself, within the bound.
int status_of(ChildProcess& process) {
  if (!readable(process.pidfd())) {
    ADD_FAILURE() << "it hangs";
    process.kill(SIGKILL);
  }
  return process.wait();
}

// The wait status of a process that the kernel reaps, by its pidfd; nullopt before Linux 6.15.
std::optional<int> reaped_status(int pidfd) {
  struct PidfdInfo {  // struct pidfd_info in its first version
    std::uint64_t mask;
    std::uint64_t cgroup_id;
    std::uint32_t ids[11];
    std::int32_t exit_code;
  };
  constexpr std::uint64_t kExit = 8;  // PIDFD_INFO_EXIT
  PidfdInfo info{.mask = kExit};
  if (::ioctl(pidfd, _IOWR(0xff, 11, PidfdInfo), &info) < 0) return std::nullopt;
  if ((info.mask & kExit) == 0) return std::nullopt;
  return info.exit_code;
}

// A launcher as the native backend starts it. Nothing is mounted and no step of a plan is applied:
// every request here is refused before.
struct Launcher {
  Launcher() {
    auto [ours, theirs] = seqpacket_pair();
    socket = std::move(ours);
    const UniqueFd null = open_file("/dev/null", O_RDWR);
    Command command;
    command.program = backend::open_guest_program();
    command.argv = {"caisson", "launcher"};
    command.fds = {{null.get(), 0}, {null.get(), 1}, {null.get(), 2}, {theirs.get(), 3}};
    process = spawn(command);
  }

  // The answer to a request; nullopt when the launcher ends instead.
  std::optional<Packet> ask(const std::string& request, std::span<const int> fds = {}) const {
    send_packet(socket.get(), request, fds);
    if (!readable(socket.get())) {
      ADD_FAILURE() << "no answer";
      return std::nullopt;
    }
    return receive_packet(socket.get());
  }

  UniqueFd socket;
  ChildProcess process;
};

// Seeded, so that what fails once fails again.
class Mutator {
 public:
  explicit Mutator(std::vector<std::string> seeds) : seeds_(std::move(seeds)) {}

  std::string next() {
    if (below(8) == 0) return noise(1 + below(200));
    std::string data = seeds_[below(seeds_.size())];
    for (std::size_t change = 0; change <= below(3); ++change) mutate(data);
    if (data.size() > 60'000) data.resize(60'000);
    return data.empty() ? noise(1) : data;
  }
  std::size_t below(std::size_t bound) { return random_() % bound; }

 private:
  std::string noise(std::size_t length) {
    std::string data(length, '\0');
    for (char& byte : data) byte = static_cast<char>(random_());
    return data;
  }
  void mutate(std::string& data) {
    if (data.empty()) return;
    const std::size_t at = below(data.size());
    switch (below(5)) {
      case 0:
        data.resize(at);
        break;
      case 1:
        data[at] = static_cast<char>(random_());
        break;
      case 2:
        data.insert(at, noise(1 + below(9)));
        break;
      case 3:
        data += noise(1 + below(40));
        break;
      default:  // a number that is far too large
        data.replace(at, 4, "\xff\xff\xff\x7f", 4);
    }
  }

  std::vector<std::string> seeds_;
  std::mt19937 random_{20'240'601};
};

template <typename Message>
std::vector<std::string> encoded(const std::vector<Message>& messages) {
  std::vector<std::string> seeds;
  for (const Message& message : messages) seeds.push_back(encode(message));
  return seeds;
}

// A request that can be read would be obeyed: those are not what this test is about.
bool is_malformed_request(const std::string& data) {
  try {
    wire::decode_launch_request(data);
  } catch (const Error&) {
    return true;
  }
  return false;
}

bool is_malformed_owner_message(const std::string& data) {
  try {
    wire::decode_owner_message(data);
  } catch (const Error&) {
    return true;
  }
  return false;
}

void expect_refusal(const std::optional<Packet>& answer) {
  ASSERT_TRUE(answer.has_value());
  const wire::LaunchReply reply = wire::decode_launch_reply(answer->data);
  const auto* failed = std::get_if<wire::LaunchFailed>(&reply);
  ASSERT_NE(failed, nullptr);
  EXPECT_NE(failed->step, "");
  EXPECT_TRUE(answer->fds.empty());
}

TEST(LauncherProcess, AnswersTwoThousandMalformedRequests) {
  const long before = open_descriptors();
  {
    Launcher launcher;
    Mutator mutator(encoded(wire::samples::launch_requests()));
    const UniqueFd null = open_file("/dev/null", O_RDWR);
    const std::vector<int> fds(3, null.get());
    for (int sent = 0; sent < 2000;) {
      const std::string request = mutator.next();
      if (!is_malformed_request(request)) continue;
      ++sent;
      SCOPED_TRACE(str("request ", sent));
      const std::size_t count = mutator.below(fds.size() + 1);
      expect_refusal(launcher.ask(request, std::span(fds).first(count)));
      if (testing::Test::HasFailure()) return;
    }
    launcher.socket.reset();
    const int status = status_of(launcher.process);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(LauncherProcess, AnswersMalformedRequestsInMemoryFiles) {
  const long before = open_descriptors();
  {
    Launcher launcher;
    Mutator mutator(encoded(wire::samples::launch_requests()));
    for (int sent = 0; sent < 200;) {
      const std::string request = mutator.next();
      if (!is_malformed_request(request)) continue;
      ++sent;
      const UniqueFd memory =
          sealed_memory_file("request", std::as_bytes(std::span(request.data(), request.size())));
      const int fds[] = {memory.get()};
      const wire::LaunchRequest indirect = wire::IndirectLaunch{.size = request.size()};
      expect_refusal(launcher.ask(encode(indirect), fds));
    }
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(LauncherProcess, RefusesRequestsThatDoNotFitTheirDescriptors) {
  Launcher launcher;
  const UniqueFd null = open_file("/dev/null", O_RDONLY);
  const int one[] = {null.get()};
  const auto ask = [&](const wire::LaunchRequest& request, std::span<const int> fds = {}) {
    expect_refusal(launcher.ask(encode(request), fds));
  };
  ask(wire::LaunchBox{});
  ask(wire::FinishBox{});
  ask(wire::AdoptCgroups{.names = {"a", "b"}}, one);
  ask(wire::AdoptCgroups{}, one);
  ask(wire::IndirectLaunch{.size = 10});
  ask(wire::IndirectLaunch{.size = wire::samples::kMax64}, one);
  ask(wire::IndirectLaunch{.size = 10}, one);
  const std::string nested = encode(wire::LaunchRequest(wire::IndirectLaunch{.size = 9}));
  const UniqueFd memory =
      sealed_memory_file("nested", std::as_bytes(std::span(nested.data(), nested.size())));
  const int indirect[] = {memory.get(), memory.get()};
  ask(wire::IndirectLaunch{.size = nested.size()}, indirect);
}

TEST(LauncherProcess, RefusesMapsTheKernelRefuses) {
  Launcher launcher;
  const auto ask = [&](std::vector<wire::IdRange> ids) {
    const wire::LaunchRequest request = wire::CreateUserNamespace{.uids = ids, .gids = ids};
    expect_refusal(launcher.ask(encode(request)));
  };
  ask({});
  ask({{0, 100'000, 0}});
  ask({{0, 100'000, 10}, {5, 200'000, 10}});
  ask({{0, 0xfffffff0, 0x100}});
  ask(std::vector<wire::IdRange>(400, wire::IdRange{0, 0, 1}));
}

// What the kernel counts in a user namespace is charged to who made it.
TEST(LauncherProcess, MakesAUserNamespaceInTheNameOfItsAccount) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: an ordinary user has one id";
  Launcher launcher;
  for (const uid_t account : {0x74010000u, 0x7600ffffu, 0u}) {
    const wire::LaunchRequest request = wire::CreateUserNamespace{
        .uids = {{1000, 100'000, 1}}, .gids = {{1000, 100'000, 1}}, .account = account};
    const std::optional<Packet> answer = launcher.ask(encode(request));
    ASSERT_TRUE(answer && answer->fds.size() == 1);
    uid_t owner = 1;
    check_syscall("owner", ::ioctl(answer->fds[0].get(), NS_GET_OWNER_UID, &owner));
    EXPECT_EQ(owner, account);
  }
}

TEST(LauncherProcess, RefusesMoreThanAPacketMayHold) {
  const Launcher launcher;
  const std::string data(kMaxPacketBytes + 1, 'x');
  ASSERT_GT(::send(launcher.socket.get(), data.data(), data.size(), MSG_NOSIGNAL), 0);
  ASSERT_TRUE(readable(launcher.socket.get()));
  expect_refusal(receive_packet(launcher.socket.get()));
}

TEST(LauncherProcess, EndsWhenItsOwnerIsGone) {
  Launcher launcher;
  launcher.socket.reset();
  const int status = status_of(launcher.process);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

// A guest in a box without walls, which the test needs none of: the plan is empty. Its probe runs
// as nobody and leaves the host's root alone.
struct Guest {
  explicit Guest(const Launcher& launcher) {
    auto [ours, theirs] = seqpacket_pair();
    socket = std::move(ours);
    const wire::LaunchRequest request = wire::LaunchBox{.new_network = false};
    const int fds[] = {theirs.get()};
    std::optional<Packet> answer = launcher.ask(encode(request), fds);
    if (!answer) throw Error(ErrorCode::internal_error, "no guest");
    const wire::LaunchReply reply = wire::decode_launch_reply(answer->data);
    const auto* launched = std::get_if<wire::Launched>(&reply);
    if (launched == nullptr || answer->fds.size() != 1) {
      throw Error(ErrorCode::internal_error, "no guest");
    }
    process = ChildProcess(launched->pid, std::move(answer->fds[0]));
    const wire::LaunchRequest rest = wire::FinishBox{
        .guest = {.payload_uid = 65534, .payload_gid = 65534, .read_only_root = false}};
    send_packet(socket.get(), encode(rest));
  }

  // The next message; nullopt when the guest ends instead.
  std::optional<wire::GuestMessage> hear() const {
    if (!readable(socket.get())) {
      ADD_FAILURE() << "no answer";
      return std::nullopt;
    }
    const std::optional<Packet> packet = receive_packet(socket.get());
    if (!packet) return std::nullopt;
    return wire::decode_guest_message(packet->data);
  }

  void expect_clean_end() {
    EXPECT_EQ(hear(), std::nullopt);
    ASSERT_TRUE(readable(process.pidfd())) << "it hangs";
    EXPECT_EQ(reaped_status(process.pidfd()).value_or(0), 0);
  }

  UniqueFd socket;
  ChildProcess process;
};

class GuestProcess : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "namespaces without a plan need root";
  }
};

TEST_F(GuestProcess, EndsOnEveryMalformedMessage) {
  const long before = open_descriptors();
  {
    const Launcher launcher;
    Mutator mutator(encoded(wire::samples::owner_messages()));
    const UniqueFd null = open_file("/dev/null", O_RDWR);
    const std::vector<int> fds(3, null.get());
    for (int sent = 0; sent < 200;) {
      const std::string message = mutator.next();
      if (!is_malformed_owner_message(message)) continue;
      ++sent;
      SCOPED_TRACE(str("message ", sent));
      Guest guest(launcher);
      EXPECT_EQ(guest.hear(), wire::GuestMessage(wire::Ready{}));
      send_packet(guest.socket.get(), message, std::span(fds).first(mutator.below(fds.size() + 1)));
      guest.expect_clean_end();
      if (testing::Test::HasFailure()) return;
    }
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(GuestProcess, EndsOnMessagesThatDoNotFitTheirDescriptors) {
  const Launcher launcher;
  const UniqueFd null = open_file("/dev/null", O_RDWR);
  const std::string start = encode(wire::OwnerMessage(wire::Start{.id = 1, .argv = {"/absent"}}));
  const UniqueFd memory =
      sealed_memory_file("start", std::as_bytes(std::span(start.data(), start.size())));
  const std::string nested = encode(wire::OwnerMessage(wire::Indirect{.size = start.size()}));
  const UniqueFd nested_memory =
      sealed_memory_file("nested", std::as_bytes(std::span(nested.data(), nested.size())));
  const int n = null.get();
  const int m = memory.get();
  const std::pair<wire::OwnerMessage, std::vector<int>> cases[] = {
      {wire::Start{.id = 1, .argv = {"/absent"}}, {}},
      {wire::Start{.id = 1, .argv = {"/absent"}}, {n, n}},
      {wire::Start{.id = 1, .argv = {"/absent"}}, {n, n, n, n, n, n, n, n, n}},
      {wire::Indirect{.size = start.size()}, {}},
      {wire::Indirect{.size = start.size()}, {m}},
      {wire::Indirect{.size = start.size() - 1}, {m, n, n, n}},
      {wire::Indirect{.size = start.size() + 1}, {m, n, n, n}},
      {wire::Indirect{.size = wire::samples::kMax64}, {m, n, n, n}},
      {wire::Indirect{.size = 0}, {n, n, n, n}},
      {wire::Indirect{.size = nested.size()}, {nested_memory.get(), m, n, n, n}},
  };
  for (const auto& [message, fds] : cases) {
    SCOPED_TRACE(str("kind ", message.index(), " with ", fds.size(), " descriptors"));
    Guest guest(launcher);
    EXPECT_EQ(guest.hear(), wire::GuestMessage(wire::Ready{}));
    send_packet(guest.socket.get(), encode(message), fds);
    guest.expect_clean_end();
  }
}

TEST_F(GuestProcess, AnswersWhatItCannotDoAndGoesOn) {
  const Launcher launcher;
  Guest guest(launcher);
  EXPECT_EQ(guest.hear(), wire::GuestMessage(wire::Ready{}));
  const UniqueFd null = open_file("/dev/null", O_RDWR);
  const int stdio[] = {null.get(), null.get(), null.get()};
  const auto tell = [&](const wire::OwnerMessage& message, std::span<const int> fds = {}) {
    send_packet(guest.socket.get(), encode(message), fds);
  };
  const wire::Start absurd[] = {
      {.id = 1},
      {.id = 2, .argv = {""}, .cwd = "/"},
      {.id = 3, .argv = {"/absent/program"}, .cwd = "/"},
      {.id = 4, .argv = {"/absent/program"}, .cwd = "relative"},
      {.id = 5, .argv = {std::string("/absent\0x", 9)}, .cwd = std::string("/\0x", 3)},
      {.id = 6, .argv = {"absent"}, .env = {"PATH=", "", "=", "no equals sign"}, .cwd = "/"},
  };
  for (const wire::Start& start : absurd) {
    tell(start, stdio);
    const std::optional<wire::GuestMessage> answer = guest.hear();
    ASSERT_TRUE(answer.has_value()) << start.id;
    const auto* failed = std::get_if<wire::StartFailed>(&*answer);
    ASSERT_NE(failed, nullptr) << start.id;
    EXPECT_EQ(failed->id, start.id);
  }
  tell(wire::Signal{.id = 99, .signal_number = 9, .group = true});
  tell(wire::Signal{.id = 3, .signal_number = -1, .group = false});
  tell(wire::NetworkReady{});
  tell(wire::Ping{.token = 42});
  EXPECT_EQ(guest.hear(), wire::GuestMessage(wire::Pong{.token = 42}));
  tell(wire::End{.grace_ms = wire::samples::kMax32});
  guest.expect_clean_end();
}

}  // namespace
}  // namespace caisson
