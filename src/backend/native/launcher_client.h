#pragma once
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "async/event.h"
#include "async/task.h"
#include "base/child_process.h"
#include "base/seqpacket.h"
#include "wire/launch.h"

namespace caisson::backend::native {

// A request as it travels: inside a packet or, when it is too large, in a memory file that is the
// first of its descriptors.
struct Parcel {
  std::string data;
  UniqueFd memory;
  std::vector<int> fds;
};
Parcel pack(const wire::LaunchRequest& request, std::vector<int> fds);

// The owner's side of a launcher process. Requests may overlap; the launcher answers in order.
class LauncherClient : public std::enable_shared_from_this<LauncherClient> {
 public:
  // Starts a launcher from the embedded program, with an empty environment and one descriptor.
  static std::shared_ptr<LauncherClient> start(const boost::asio::any_io_executor& executor);

  LauncherClient(const boost::asio::any_io_executor& executor, ChildProcess process,
                 UniqueFd socket);

  // Lives in the root that the plan builds, from now on.
  Task<void> build_template(wire::BuildTemplate request, std::vector<int> fds);
  Task<UniqueFd> create_user_namespace(wire::CreateUserNamespace request);

  // A process that waits to be finished into a box, and our end of its control socket. The kernel
  // reaps it; its pidfd tells its end.
  struct LaunchedProcess {
    ChildProcess process;
    UniqueFd control;
  };
  // The spare one, if it began in just this way; otherwise one made now. With `keep_spare` the next
  // one is then made while the caller is busy with this one: half of a box's cost is its
  // namespaces.
  Task<LaunchedProcess> launch(wire::LaunchBox request, bool keep_spare);
  // Shows or hides something in a box that lives: ShowMount or HideMount.
  Task<void> change_mounts(wire::LaunchRequest request, std::vector<int> fds);
  Task<void> adopt_cgroups(std::vector<std::string> names, std::vector<int> fds);

  bool alive() const { return socket_.is_open(); }
  pid_t pid() const { return process_.pid(); }
  void stop();

 private:
  struct Answer {
    explicit Answer(const boost::asio::any_io_executor& executor) : arrived(executor) {}
    Event arrived;
    std::optional<wire::LaunchReply> reply;  // none: the launcher is gone
    std::vector<UniqueFd> fds;
  };

  // A process that was asked for before anybody needs it.
  struct Spare {
    wire::LaunchBox request;
    UniqueFd control;
    std::shared_ptr<Answer> answer;
  };

  Task<std::shared_ptr<Answer>> call(wire::LaunchRequest request, std::vector<int> fds);
  Task<std::shared_ptr<Answer>> wait_for(std::shared_ptr<Answer> answer);
  std::shared_ptr<Answer> expect_answer();
  void prepare(const wire::LaunchBox& request);
  void wait_for_answer();
  void on_readable();
  void close();

  boost::asio::any_io_executor executor_;
  ChildProcess process_;
  boost::asio::posix::stream_descriptor socket_;
  std::deque<std::shared_ptr<Answer>> waiting_;
  std::optional<Spare> spare_;
};

}  // namespace caisson::backend::native
