#pragma once
#include <boost/asio/any_io_executor.hpp>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "base/error.h"
#include "model/isolation.h"

namespace caisson::backend::fake {

struct FakeState;

// Boxes that exist only in memory: the twin of a real backend on which everything above backend/ is
// developed and tested. A process is a coroutine; it has a pid, a group, an environment, memory and
// standard streams, obeys signals and the limits of its box, and is one of a few simulated
// programs: sh with a small language (script.h), caisson-payload, true, false, cat, echo, sleep,
// mkdir, pwd and env. Files live in memory, except in mounts: those are the real directories of the
// host, checked as a real backend checks them. Nothing is isolated, because nothing of a box is
// ever executed.
//
// One event loop thread uses all of it. As with real boxes, the program ignores SIGPIPE.
class Fake final : public Backend {
 public:
  explicit Fake(boost::asio::any_io_executor executor);
  ~Fake() override;

  std::string_view name() const override { return "fake"; }
  Task<BackendStatus> status() override;
  Task<std::unique_ptr<Box>> create(model::BoxSettings settings) override;
  Task<std::unique_ptr<Box>> adopt(model::BoxSettings settings, std::string description,
                                   std::vector<UniqueFd> fds) override;
  void set_mount_rules(MountRulesOf) override {}
  Task<void> begin_adoption(std::vector<std::string>) override { co_return; }
  void abandon() override {}
  Task<void> stop() override;

  // The ways in which a real backend fails, on demand.
  void fail_next_create(Error error);  // once each
  void fail_next_start(Error error);   // in whichever box a process is started next
  void hold_creates();                 // create() waits...
  void release_creates();              // ...until this
  std::size_t held_creates() const;    // how many wait now
  bool kill_box(std::string_view id);  // as if its kernel had ended it; false: no such box alive
  void set_unavailable(std::string reason);  // status() says so and create() throws; empty: mended
  void set_isolation(
      model::IsolationReport report);  // of status() and of boxes created from now on

  std::vector<std::string> boxes() const;  // ids of those alive, oldest first

 private:
  std::shared_ptr<FakeState> state_;  // a box may outlive the backend
};

}  // namespace caisson::backend::fake
