#pragma once
#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "async/task.h"
#include "base/child_process.h"
#include "base/seqpacket.h"
#include "base/unique_fd.h"
#include "wire/keeper.h"

namespace caisson::backend {

// What was kept under one name.
struct KeptEntry {
  std::string data;
  std::vector<UniqueFd> fds;
};
using KeptEntries = std::map<std::string, KeptEntry>;

// Where an owner of boxes leaves what the next one needs. A name stands for one thing; keeping it
// again replaces it. The end of a pipe or socket that is kept stays open: drop it to close it.
class Keeper {
 public:
  virtual ~Keeper() = default;
  // The descriptors are borrowed.
  virtual void keep(const std::string& name, const std::string& data, std::vector<int> fds) = 0;
  virtual void drop(const std::string& name) = 0;
  // Called when what is kept had to be given up: everybody keeps what is theirs again.
  virtual void on_loss(std::function<void()> handler) = 0;
};

// The keeper of one state directory: a process of its own that outlives its owners, and holds on
// while nobody is there. Calls do not wait for it beyond its socket's buffer; when it takes nothing
// for two seconds it is replaced.
class KeeperProcess final : public Keeper {
 public:
  // Finds the directory's keeper, or starts one. The caller has made sure that it is the only owner
  // (a lock on the directory). Throws `busy` when there is one that says nothing for so long, or
  // holds more than this process can take: what it holds would be lost with another.
  explicit KeeperProcess(const std::filesystem::path& directory,
                         std::chrono::milliseconds patience = std::chrono::seconds(30));
  ~KeeperProcess() override;  // it lives on if it holds anything

  pid_t pid() const { return pid_; }

  // What the last owner left; once.
  KeptEntries take_entries() { return std::move(entries_); }

  void keep(const std::string& name, const std::string& data, std::vector<int> fds) override;
  void drop(const std::string& name) override;
  void on_loss(std::function<void()> handler) override {
    loss_handlers_.push_back(std::move(handler));
  }

  // Replaces a keeper that dies, also while nothing is to be kept. Until it is cancelled.
  Task<void> watch();

  // It lets go of everything and ends.
  void quit();

 private:
  void connect();
  void start();
  UniqueFd try_connect() const;
  std::optional<KeptEntries> ask_for_entries();  // nothing: it has ended
  pid_t peer() const;
  std::optional<Packet> receive() const;
  void send(const wire::KeeperRequest& request, const std::vector<int>& fds);
  bool replace();

  std::string name_;    // of the directory, for messages
  UniqueFd directory_;  // the socket's name is relative to it: the length of such names is bounded
  std::chrono::milliseconds patience_;
  UniqueFd socket_;
  ChildProcess process_;  // if we started it
  pid_t pid_ = -1;
  int generation_ = 0;  // how often it was replaced
  KeptEntries entries_;
  std::vector<std::function<void()>> loss_handlers_;
};

}  // namespace caisson::backend
