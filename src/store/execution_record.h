#pragma once
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "model/timestamp.h"
#include "store/database.h"

namespace caisson::store {

// A command that was asked for under a request id.
struct ExecutionId {
  std::string session_id;
  std::string key;  // the request id
  auto operator<=>(const ExecutionId&) const = default;
};

enum class ExecutionState {
  running,      // in the daemon that wrote it
  completed,    // `answer` is the result
  failed,       // `answer` is the error
  interrupted,  // its daemon ended before it did; nobody knows how far it came
};

struct ExecutionRecord {
  ExecutionId id;
  std::string request_hash;  // of what was asked for, to tell a repetition from another request
  ExecutionState state = ExecutionState::running;
  model::Timestamp created_at;
  model::Timestamp ended_at;      // 1970 while it runs
  std::string answer;             // JSON
  std::int64_t answer_bytes = 0;  // its size, also where the answer itself is left out
  bool operator==(const ExecutionRecord&) const = default;
};

namespace rows {

inline constexpr std::string_view kSelectExecutions =
    "SELECT rowid, session_id, key, request_hash, state, created_at, ended_at, answer, checksum"
    " FROM executions";

// nullopt when the row is not what was written.
std::optional<ExecutionRecord> read_execution(const Statement& row);

// Insert or replace: it is the last one then, in the order of rowids.
void write(const Database& database, const ExecutionRecord& record);
void remove(const Database& database, const ExecutionId& id);

}  // namespace rows

}  // namespace caisson::store
