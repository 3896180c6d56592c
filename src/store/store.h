#pragma once
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "store/execution_record.h"
#include "store/reserve.h"
#include "store/session_record.h"

namespace caisson::store {

// What opening found besides a healthy, current file.
struct Opened {
  bool recovered = false;  // the file was damaged: `report` says what is left and where it is
  std::string report;      // one sentence for the log; empty when there is nothing to say
};

// What must survive a restart, in one SQLite file. Every method blocks and belongs to the thread
// that made the object; async_store.h is the same for the event loop.
//
// A method that throws has changed nothing. storage_full (disk, inodes, quota) and a read-only file
// system are told as such, and the next call works again once they are mended. What is there can be
// read and removed on a full disk as well.
class Store {
 public:
  // Opens the file or makes it. A damaged one is set aside and what can be read of it is kept; one
  // of a newer version is refused and not touched; an older one is brought up to date, with a copy
  // left beside it. The caller holds the lock of the state directory.
  explicit Store(const std::filesystem::path& file);

  const Opened& opened() const { return opened_; }

  void put_session(const SessionRecord& record);  // adds it, or replaces the one of that id
  // Both are false when there is no such session.
  bool touch_session(const std::string& session_id, model::Timestamp last_used_at);
  bool remove_session(const std::string& session_id);
  std::vector<SessionRecord> sessions() const;  // in the order in which they were added

  // Removes some and adds or replaces others, all or nothing. What has been put survives a power
  // failure: a command may begin once it is recorded.
  void put_executions(const std::vector<ExecutionRecord>& records,
                      const std::vector<ExecutionId>& dropped = {});
  void remove_executions(const std::vector<ExecutionId>& ids);
  void remove_executions_of(const std::string& session_id);
  std::optional<ExecutionRecord> find_execution(const ExecutionId& id) const;
  std::vector<ExecutionRecord> executions() const;  // the first to end first; without answers

  std::optional<std::string> find_meta(const std::string& key) const;
  void set_meta(const std::string& key, const std::string& value);

 private:
  void remove(const std::function<void()>& work);

  Opened opened_;
  Database database_;
  Reserve reserve_;
};

}  // namespace caisson::store
