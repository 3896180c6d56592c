#include "backend/native/launcher_client.h"

#include <fcntl.h>

#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <span>
#include <utility>

#include "backend/guest_image.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/str.h"

namespace caisson::backend::native {

namespace asio = boost::asio;

namespace {

// Making a box takes milliseconds. A launcher that does not answer for so long is given up.
constexpr auto kAnswerDeadline = std::chrono::seconds(60);

}  // namespace

std::shared_ptr<LauncherClient> LauncherClient::start(const asio::any_io_executor& executor) {
  auto [ours, theirs] = seqpacket_pair();
  const UniqueFd null = open_file("/dev/null", O_RDWR);
  Command command;
  command.program = open_guest_program();
  command.argv = {"caisson", "launcher"};
  command.fds = {{null.get(), 0}, {null.get(), 1}, {2, 2}, {theirs.get(), 3}};
  ChildProcess process = spawn(command);
  return std::make_shared<LauncherClient>(executor, std::move(process), std::move(ours));
}

LauncherClient::LauncherClient(const asio::any_io_executor& executor, ChildProcess process,
                               UniqueFd socket)
    : executor_(executor), process_(std::move(process)), socket_(executor) {
  set_nonblocking(socket.get());
  socket_.assign(socket.release());
}

Parcel pack(const wire::LaunchRequest& request, std::vector<int> fds) {
  Parcel parcel{.data = wire::encode(request), .memory = {}, .fds = std::move(fds)};
  if (parcel.data.size() > wire::kMaxPlanBytes) {
    parcel.memory = sealed_memory_file(
        "caisson-plan", std::as_bytes(std::span(parcel.data.data(), parcel.data.size())));
    parcel.fds.insert(parcel.fds.begin(), parcel.memory.get());
    parcel.data = wire::encode(wire::LaunchRequest(wire::IndirectLaunch{parcel.data.size()}));
  }
  return parcel;
}

Task<std::shared_ptr<LauncherClient::Answer>> LauncherClient::call(wire::LaunchRequest request,
                                                                   std::vector<int> fds) {
  const std::shared_ptr<LauncherClient> self = shared_from_this();
  const Parcel parcel = pack(request, std::move(fds));
  for (;;) {
    if (!alive()) throw Error(ErrorCode::backend_unavailable, "the launcher has ended");
    try {
      send_packet(socket_.native_handle(), parcel.data, parcel.fds);
      break;
    } catch (const SystemError& error) {
      if (error.error_number() != EAGAIN) {
        close();
        throw Error(ErrorCode::backend_unavailable, "the launcher has ended");
      }
    }
    co_await socket_.async_wait(asio::posix::stream_descriptor::wait_write, asio::use_awaitable);
  }
  co_return co_await wait_for(expect_answer());
}

std::shared_ptr<LauncherClient::Answer> LauncherClient::expect_answer() {
  auto answer = std::make_shared<Answer>(executor_);
  waiting_.push_back(answer);
  if (waiting_.size() == 1) wait_for_answer();
  return answer;
}

Task<std::shared_ptr<LauncherClient::Answer>> LauncherClient::wait_for(
    std::shared_ptr<Answer> answer) {
  const std::shared_ptr<LauncherClient> self = shared_from_this();
  if (!co_await answer->arrived.wait_until(Clock::now() + kAnswerDeadline)) close();
  if (!answer->reply) throw Error(ErrorCode::backend_unavailable, "the launcher has ended");
  if (const auto* failed = std::get_if<wire::LaunchFailed>(&*answer->reply)) {
    throw SystemError(failed->step, failed->error_number);
  }
  co_return answer;
}

void LauncherClient::wait_for_answer() {
  socket_.async_wait(asio::posix::stream_descriptor::wait_read,
                     [self = shared_from_this()](const boost::system::error_code& error) {
                       if (!error) self->on_readable();
                     });
}

void LauncherClient::on_readable() {
  try {
    while (alive() && !waiting_.empty()) {
      PolledPacket polled = poll_packet(socket_.native_handle());
      if (polled.closed) return close();
      if (!polled.packet) return wait_for_answer();
      const std::shared_ptr<Answer> answer = waiting_.front();
      answer->reply = wire::decode_launch_reply(polled.packet->data);
      waiting_.pop_front();
      answer->fds = std::move(polled.packet->fds);
      answer->arrived.set();
    }
  } catch (const Error&) {
    close();
  }
}

void LauncherClient::close() {
  if (!alive()) return;
  boost::system::error_code ignored;
  socket_.close(ignored);
  for (const auto& answer : std::exchange(waiting_, {})) answer->arrived.set();
}

void LauncherClient::stop() {
  close();
  spare_.reset();
  process_ = ChildProcess();
}

Task<void> LauncherClient::build_template(wire::BuildTemplate request, std::vector<int> fds) {
  wire::LaunchRequest message = std::move(request);
  co_await call(std::move(message), std::move(fds));
}

Task<void> LauncherClient::change_mounts(wire::LaunchRequest request, std::vector<int> fds) {
  co_await call(std::move(request), std::move(fds));
}

Task<void> LauncherClient::adopt_cgroups(std::vector<std::string> names, std::vector<int> fds) {
  wire::LaunchRequest message = wire::AdoptCgroups{std::move(names)};
  co_await call(std::move(message), std::move(fds));
}

Task<UniqueFd> LauncherClient::create_user_namespace(wire::CreateUserNamespace request) {
  wire::LaunchRequest message = std::move(request);
  const std::shared_ptr<Answer> answer = co_await call(std::move(message), {});
  if (answer->fds.size() != 1) {
    throw Error(ErrorCode::protocol_error, "the launcher sent no user namespace");
  }
  co_return std::move(answer->fds[0]);
}

Task<LauncherClient::LaunchedProcess> LauncherClient::launch(wire::LaunchBox request,
                                                             bool keep_spare) {
  const std::shared_ptr<LauncherClient> self = shared_from_this();
  UniqueFd control;
  std::shared_ptr<Answer> answer;
  if (spare_ && spare_->request == request) {
    Spare spare = *std::exchange(spare_, std::nullopt);
    control = std::move(spare.control);
    answer = co_await wait_for(std::move(spare.answer));
  } else {
    auto [ours, theirs] = seqpacket_pair();
    control = std::move(ours);
    wire::LaunchRequest message = request;
    std::vector<int> fds{theirs.get()};
    answer = co_await call(std::move(message), std::move(fds));
  }
  const auto* told = std::get_if<wire::Launched>(&*answer->reply);
  if (told == nullptr || answer->fds.size() != 1) {
    throw Error(ErrorCode::protocol_error, "the launcher sent no process");
  }
  LaunchedProcess launched{.process = ChildProcess(told->pid, std::move(answer->fds[0])),
                           .control = std::move(control)};
  if (keep_spare && !spare_) prepare(request);
  co_return launched;
}

// Nobody waits for a spare: when it cannot be asked for now, there is none.
void LauncherClient::prepare(const wire::LaunchBox& request) {
  if (!alive()) return;
  auto [ours, theirs] = seqpacket_pair();
  const Parcel parcel = pack(request, {theirs.get()});
  try {
    send_packet(socket_.native_handle(), parcel.data, parcel.fds);
  } catch (const SystemError&) {
    return;
  }
  spare_ = Spare{.request = request, .control = std::move(ours), .answer = expect_answer()};
}

}  // namespace caisson::backend::native
