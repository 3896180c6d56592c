#pragma once
#include <boost/asio/thread_pool.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "async/task.h"
#include "store/store.h"

namespace caisson::store {

// A Store for the event loop: a thread of its own does one thing after the other, in the order in
// which they were asked for. Outlives the calls that are under way; the destructor waits for the
// last of them.
class AsyncStore {
 public:
  AsyncStore();
  AsyncStore(const AsyncStore&) = delete;
  AsyncStore& operator=(const AsyncStore&) = delete;
  ~AsyncStore();

  // Before everything else; again after it failed.
  Task<Opened> open(std::filesystem::path file);

  Task<void> put_session(SessionRecord record);
  Task<bool> touch_session(std::string session_id, model::Timestamp last_used_at);
  Task<bool> remove_session(std::string session_id);
  Task<std::vector<SessionRecord>> sessions();
  Task<void> put_executions(std::vector<ExecutionRecord> records, std::vector<ExecutionId> dropped);
  Task<void> remove_executions(std::vector<ExecutionId> ids);
  Task<void> remove_executions_of(std::string session_id);
  Task<std::optional<ExecutionRecord>> find_execution(ExecutionId id);
  Task<std::vector<ExecutionRecord>> executions();
  Task<std::optional<std::string>> find_meta(std::string key);
  Task<void> set_meta(std::string key, std::string value);

 private:
  std::unique_ptr<Store> store_;  // used by the thread of the pool only
  boost::asio::thread_pool thread_;
};

}  // namespace caisson::store
