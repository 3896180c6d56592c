#include "store/execution_record.h"

#include "store/checksum.h"

namespace caisson::store {

namespace {

std::int64_t microseconds(model::Timestamp time) {
  return time.time_since_epoch().count();
}

model::Timestamp to_timestamp(std::int64_t number) {
  return model::Timestamp(std::chrono::microseconds(number));
}

std::int64_t checksum_of(const ExecutionRecord& record) {
  return Checksum()
      .add(record.id.session_id)
      .add(record.id.key)
      .add(record.request_hash)
      .add(static_cast<std::int64_t>(record.state))
      .add(microseconds(record.created_at))
      .add(microseconds(record.ended_at))
      .add(record.answer)
      .value();
}

}  // namespace

namespace rows {

std::optional<ExecutionRecord> read_execution(const Statement& row) {
  const std::int64_t state = row.number(4);
  if (state < 0 || state > static_cast<std::int64_t>(ExecutionState::interrupted)) {
    return std::nullopt;
  }
  ExecutionRecord record{.id = {.session_id = row.text(1), .key = row.text(2)},
                         .request_hash = row.text(3),
                         .state = static_cast<ExecutionState>(state),
                         .created_at = to_timestamp(row.number(5)),
                         .ended_at = to_timestamp(row.number(6)),
                         .answer = row.text(7)};
  record.answer_bytes = static_cast<std::int64_t>(record.answer.size());
  if (checksum_of(record) != row.number(8)) return std::nullopt;
  return record;
}

void write(const Database& database, const ExecutionRecord& record) {
  database
      .prepare(
          "INSERT OR REPLACE INTO executions (session_id, key, request_hash, state, created_at,"
          " ended_at, answer, checksum) VALUES (?, ?, ?, ?, ?, ?, ?, ?)")
      .bind(1, record.id.session_id)
      .bind(2, record.id.key)
      .bind(3, record.request_hash)
      .bind(4, static_cast<std::int64_t>(record.state))
      .bind(5, microseconds(record.created_at))
      .bind(6, microseconds(record.ended_at))
      .bind(7, record.answer)
      .bind(8, checksum_of(record))
      .run();
}

void remove(const Database& database, const ExecutionId& id) {
  database.prepare("DELETE FROM executions WHERE session_id = ? AND key = ?")
      .bind(1, id.session_id)
      .bind(2, id.key)
      .run();
}

}  // namespace rows

}  // namespace caisson::store
