#pragma once
#include <filesystem>
#include <memory>
#include <string>

#include "async/task.h"
#include "base/child_process.h"
#include "base/unique_fd.h"
#include "boxes.h"
#include "net/client.h"

namespace caisson::benchmarks {

// A daemon of its own for one measurement, on a free port of loopback, ended with the object.
class DaemonProcess {
 public:
  // Starts it and waits until it answers. `pools`: keeps boxes and shells ready.
  explicit DaemonProcess(bool pools);
  DaemonProcess(const DaemonProcess&) = delete;
  DaemonProcess& operator=(const DaemonProcess&) = delete;
  ~DaemonProcess();

  // A directory that its sessions may be shown.
  const std::filesystem::path& shown() const { return shown_.path(); }
  std::string pid() const { return std::to_string(process_.pid()); }
  const std::string& address() const { return address_; }
  double ready_ms() const { return ready_ms_; }  // from its start to its first answer
  std::unique_ptr<net::Client> connect(Loop& loop) const;
  // SIGKILL, and another one on the same state. Returns when that answers.
  void kill_and_start();

 private:
  void start();

  TemporaryDirectory directory_;
  TemporaryDirectory shown_{0755};
  UniqueFd log_;
  ChildProcess process_;
  std::string address_;
  double ready_ms_ = 0;  // of the last start
};

// One request; throws unless the answer is a success. The body is returned.
Task<std::string> ask(net::Client& client, std::string method, std::string target,
                      std::string body = {});

// The command that everything here runs, in the session of that name.
Task<void> exec_in(net::Client& client, std::string session);

}  // namespace caisson::benchmarks
