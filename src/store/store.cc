#include "store/store.h"

#include <utility>

#include "base/str.h"
#include "base/text.h"
#include "store/salvage.h"
#include "store/schema.h"

namespace caisson::store {

namespace fs = std::filesystem;

namespace {

const Schema& schema() {
  static const Schema steps = {
      "CREATE TABLE sessions ("
      " session_id TEXT PRIMARY KEY NOT NULL,"
      " spec TEXT NOT NULL,"  // JSON
      " backend_name TEXT NOT NULL,"
      " backend_session_id TEXT NOT NULL,"
      " created_at INTEGER NOT NULL,"  // microseconds since 1970
      " last_used_at INTEGER NOT NULL,"
      " owner INTEGER NOT NULL,"
      " checksum INTEGER NOT NULL);"
      "CREATE TABLE meta ("
      " key TEXT PRIMARY KEY NOT NULL,"
      " value TEXT NOT NULL,"
      " checksum INTEGER NOT NULL);",
      "CREATE TABLE executions ("
      " session_id TEXT NOT NULL,"
      " key TEXT NOT NULL,"
      " request_hash TEXT NOT NULL,"
      " state INTEGER NOT NULL,"       // ExecutionState
      " created_at INTEGER NOT NULL,"  // microseconds since 1970
      " ended_at INTEGER NOT NULL,"
      " answer TEXT NOT NULL,"  // JSON
      " checksum INTEGER NOT NULL,"
      " PRIMARY KEY (session_id, key));"};
  return steps;
}

[[noreturn]] void fail_damaged_row(const Database& database, std::string_view what) {
  throw DamagedError(
      str(database.file().native(), " is damaged: ", what, " does not match its checksum"));
}

Database open_healthy(const fs::path& file, Opened& opened) {
  Database database = open_database(file, schema(), opened.report);
  check_rows(database);
  database.merge_log_on_close();
  return database;
}

Database open(const fs::path& file, Opened& opened) {
  std::error_code error;
  const fs::file_status status = fs::status(file, error);
  if (status.type() == fs::file_type::not_found) create_database(file, schema());
  std::string damage;
  try {
    return open_healthy(file, opened);
  } catch (const DamagedError& found) {
    damage = found.cause();
  }
  opened = {.recovered = true, .report = replace_damaged(file, schema(), damage)};
  Opened again;
  return open_healthy(file, again);
}

}  // namespace

Store::Store(const fs::path& file)
    : database_(open(fs::absolute(file), opened_)),
      reserve_(str(database_.file().native(), ".reserve")) {}

void Store::put_session(const SessionRecord& record) {
  database_.transact([&] { rows::write(database_, record); });
}

bool Store::touch_session(const std::string& session_id, model::Timestamp last_used_at) {
  bool found = false;
  // The checksum covers the time, so the row is written as a whole.
  database_.transact([&] {
    Statement row = database_.prepare(str(rows::kSelectSessions, " WHERE session_id = ?"));
    found = row.bind(1, session_id).step();
    if (!found) return;
    std::optional<SessionRecord> record = rows::read_session(row);
    if (!record) fail_damaged_row(database_, str("the record of session ", printable(session_id)));
    record->last_used_at = last_used_at;
    rows::write(database_, *record);
  });
  return found;
}

bool Store::remove_session(const std::string& session_id) {
  bool removed = false;
  remove([&] {
    database_.prepare("DELETE FROM sessions WHERE session_id = ?").bind(1, session_id).run();
    removed = database_.changes() > 0;
  });
  return removed;
}

// Possible on a full disk, once, in the space of the reserve.
void Store::remove(const std::function<void()>& work) {
  try {
    database_.transact(work);
    reserve_.refill();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::storage_full || !reserve_.release()) throw;
    database_.transact(work);
  }
}

void Store::put_executions(const std::vector<ExecutionRecord>& records,
                           const std::vector<ExecutionId>& dropped) {
  database_.transact_durably([&] {
    for (const ExecutionId& id : dropped) rows::remove(database_, id);
    for (const ExecutionRecord& record : records) rows::write(database_, record);
  });
}

void Store::remove_executions(const std::vector<ExecutionId>& ids) {
  remove([&] {
    for (const ExecutionId& id : ids) rows::remove(database_, id);
  });
}

void Store::remove_executions_of(const std::string& session_id) {
  remove([&] {
    database_.prepare("DELETE FROM executions WHERE session_id = ?").bind(1, session_id).run();
  });
}

std::optional<ExecutionRecord> Store::find_execution(const ExecutionId& id) const {
  Statement row =
      database_.prepare(str(rows::kSelectExecutions, " WHERE session_id = ? AND key = ?"));
  if (!row.bind(1, id.session_id).bind(2, id.key).step()) return std::nullopt;
  std::optional<ExecutionRecord> record = rows::read_execution(row);
  if (!record) fail_damaged_row(database_, str("the record of request id ", printable(id.key)));
  return record;
}

std::vector<ExecutionRecord> Store::executions() const {
  std::vector<ExecutionRecord> list;
  Statement row = database_.prepare(str(rows::kSelectExecutions, " ORDER BY rowid"));
  while (row.step()) {
    std::optional<ExecutionRecord> record = rows::read_execution(row);
    if (!record) fail_damaged_row(database_, "the record of a request id");
    record->answer = std::string();
    list.push_back(*std::move(record));
  }
  return list;
}

std::vector<SessionRecord> Store::sessions() const {
  std::vector<SessionRecord> list;
  Statement row = database_.prepare(str(rows::kSelectSessions, " ORDER BY rowid"));
  while (row.step()) {
    std::optional<SessionRecord> record = rows::read_session(row);
    if (!record) fail_damaged_row(database_, "the record of a session");
    list.push_back(*std::move(record));
  }
  return list;
}

std::optional<std::string> Store::find_meta(const std::string& key) const {
  Statement row = database_.prepare(str(rows::kSelectMeta, " WHERE key = ?"));
  if (!row.bind(1, key).step()) return std::nullopt;
  std::optional<MetaRecord> record = rows::read_meta(row);
  if (!record) fail_damaged_row(database_, str("the record of ", printable(key)));
  return record->second;
}

void Store::set_meta(const std::string& key, const std::string& value) {
  database_.transact([&] { rows::write(database_, MetaRecord(key, value)); });
}

}  // namespace caisson::store
