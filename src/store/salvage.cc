#include "store/salvage.h"

#include <unistd.h>

#include <chrono>
#include <ctime>
#include <map>
#include <set>

#include "base/str.h"
#include "base/text.h"
#include "store/execution_record.h"
#include "store/session_record.h"

namespace caisson::store {

namespace fs = std::filesystem;

namespace {

// What can still be read of a damaged file.
struct Salvage {
  std::map<std::string, SessionRecord> sessions;
  std::map<std::string, MetaRecord> meta;
  std::map<ExecutionId, ExecutionRecord> executions;
  std::set<std::int64_t> wrong_sessions;  // rows that are there and are not what was written
  std::set<std::int64_t> wrong_executions;
  bool cut_short = false;  // parts of the tables cannot be reached
};

// From both ends: what lies behind a page that cannot be read is reached from the other side.
void scan(const Database& database, std::string_view select, Salvage& salvage,
          const std::function<void(const Statement& row)>& take) {
  for (const char* order : {" ORDER BY rowid", " ORDER BY rowid DESC"}) {
    try {
      Statement rows = database.prepare(str(select, order));
      while (rows.step()) take(rows);
      if (!salvage.cut_short) return;
    } catch (const Error& error) {
      if (error.code() == ErrorCode::storage_full) throw;  // says nothing about the rows
      salvage.cut_short = true;
    }
  }
}

// A file of version 1 has no such table.
bool has_executions(const Database& database) {
  return database.number("SELECT count(*) FROM sqlite_master WHERE name = 'executions'") > 0;
}

Salvage read_damaged(const fs::path& file) {
  Salvage salvage;
  try {
    const Database database(file, Database::Use::rescue);
    scan(database, rows::kSelectSessions, salvage, [&](const Statement& row) {
      if (auto record = rows::read_session(row)) {
        salvage.sessions.insert_or_assign(record->session_id, *record);
      } else {
        salvage.wrong_sessions.insert(row.number(0));
      }
    });
    scan(database, rows::kSelectMeta, salvage, [&](const Statement& row) {
      if (auto record = rows::read_meta(row)) {
        salvage.meta.insert_or_assign(record->first, *record);
      }
    });
    if (!has_executions(database)) return salvage;
    scan(database, rows::kSelectExecutions, salvage, [&](const Statement& row) {
      if (auto record = rows::read_execution(row)) {
        salvage.executions.insert_or_assign(record->id, *record);
      } else {
        salvage.wrong_executions.insert(row.number(0));
      }
    });
  } catch (const DamagedError&) {
    salvage.cut_short = true;
  }
  return salvage;
}

std::string time_for_name() {
  const auto now = std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now());
  std::string text = model::timestamp_text(now);
  std::erase(text, '-');
  std::erase(text, ':');
  return text;
}

void set_log_aside(const fs::path& file, const fs::path& aside) {
  const std::string log = str(file.native(), "-wal");
  const std::string index = str(file.native(), "-shm");
  std::error_code error;
  if (fs::file_size(log, error) > 0 && !error) {
    const std::string kept = str(aside.native(), "-wal");
    if (::rename(log.c_str(), kept.c_str()) != 0) fail_on_storage(kept, errno);
  } else if (::unlink(log.c_str()) != 0 && errno != ENOENT) {
    fail_on_storage(log, errno);
  }
  if (::unlink(index.c_str()) != 0 && errno != ENOENT) fail_on_storage(index, errno);
}

std::string describe(const Salvage& salvage) {
  std::string text = str(salvage.sessions.size(), " sessions were read from it");
  if (!salvage.wrong_sessions.empty()) text += str(", ", salvage.wrong_sessions.size(), " lost");
  if (!salvage.wrong_executions.empty()) {
    text += str(", ", salvage.wrong_executions.size(),
                " request ids lost: commands repeated with them run again");
  }
  if (salvage.cut_short) text += ", what else it held cannot be read";
  return text;
}

}  // namespace

void check_rows(const Database& database) {
  const auto damaged = [&](std::string_view fault) {
    throw DamagedError(str(database.file().native(), " is damaged: ", fault));
  };
  try {
    Statement sessions = database.prepare(rows::kSelectSessions);
    while (sessions.step()) {
      if (!rows::read_session(sessions)) {
        damaged("the record of a session does not match its checksum");
      }
    }
    Statement meta = database.prepare(rows::kSelectMeta);
    while (meta.step()) {
      if (!rows::read_meta(meta)) damaged("a record does not match its checksum");
    }
    Statement executions = database.prepare(rows::kSelectExecutions);
    while (executions.step()) {
      if (!rows::read_execution(executions)) {
        damaged("the record of a request id does not match its checksum");
      }
    }
  } catch (const Error& error) {
    if (error.code() == ErrorCode::internal_error) damaged("its tables are not ours");
    throw;
  }
}

std::string replace_damaged(const fs::path& file, const Schema& schema, const std::string& cause) {
  const Salvage salvage = read_damaged(file);
  const fs::path repaired = str(file.native(), ".repaired");
  create_database(repaired, schema, [&](const Database& database) {
    for (const auto& [id, record] : salvage.sessions) rows::write(database, record);
    for (const auto& [key, record] : salvage.meta) rows::write(database, record);
    for (const auto& [id, record] : salvage.executions) rows::write(database, record);
  });
  const fs::path aside = str(file.native(), ".corrupt-", time_for_name());
  // The log goes first: SQLite would apply it to whatever file stands beside it.
  set_log_aside(file, aside);
  if (::link(file.c_str(), aside.c_str()) != 0) fail_on_storage(aside, errno);
  if (::rename(repaired.c_str(), file.c_str()) != 0) fail_on_storage(file, errno);
  sync_directory(file.parent_path());
  return str(cause, "; it is kept as ", aside.native(), "; ", describe(salvage));
}

}  // namespace caisson::store
