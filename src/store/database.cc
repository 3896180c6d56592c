#include "store/database.h"

#include <sqlite3.h>
#include <sys/statvfs.h>

#include <utility>

#include "base/str.h"
#include "base/text.h"

namespace caisson::store {

namespace fs = std::filesystem;

namespace {

constexpr int kBusyTimeoutMs = 5000;

// Of the log, then its pages go into the file: fewer than fit a store's reserve.
constexpr int kLogPages = 100;

// What the file system says about a write that failed: SQLite does not always know the cause.
struct Obstacle {
  bool read_only = false;
  bool full = false;
  std::string text;
};

Obstacle obstacle_at(const fs::path& file, int error_number) {
  if (error_number == EDQUOT) return {.full = true, .text = "the disk quota is used up"};
  struct statvfs state {};
  if (::statvfs(file.parent_path().c_str(), &state) != 0) return {};
  if ((state.f_flag & ST_RDONLY) != 0) {
    return {.read_only = true, .text = "its file system is mounted read-only"};
  }
  if (state.f_files != 0 && state.f_favail == 0) {
    return {.full = true, .text = "no inodes are left on its file system"};
  }
  if (state.f_bavail == 0) {
    return {.full = true, .text = "no space is left on its file system"};
  }
  return {};
}

[[noreturn]] void fail_full(const fs::path& file, const Obstacle& obstacle) {
  const std::string cause =
      obstacle.full ? obstacle.text : "there is not enough space on its file system";
  throw Error(ErrorCode::storage_full,
              str(file.native(), ": ", cause,
                  ": nothing was changed; make room and repeat what was asked"));
}

[[noreturn]] void fail_read_only(const fs::path& file, const Obstacle& obstacle) {
  const std::string cause = obstacle.read_only ? obstacle.text : "it cannot be written";
  throw Error(ErrorCode::system_error,
              str(file.native(), ": ", cause, ": make it writable for this user"));
}

bool means_full(int error_number) {
  return error_number == ENOSPC || error_number == EDQUOT;
}

bool is_damage(int code) {
  const int primary = code & 0xff;
  return primary == SQLITE_CORRUPT || primary == SQLITE_NOTADB || code == SQLITE_IOERR_SHORT_READ ||
         code == SQLITE_IOERR_CORRUPTFS;
}

}  // namespace

void fail_on_storage(const fs::path& file, int error_number) {
  if (means_full(error_number)) fail_full(file, obstacle_at(file, error_number));
  if (error_number == EROFS) fail_read_only(file, obstacle_at(file, error_number));
  throw SystemError(file.native(), error_number);
}

void Statement::Finalize::operator()(sqlite3_stmt* statement) const {
  sqlite3_finalize(statement);
}

Statement& Statement::bind(int parameter, std::string_view text) {
  // A null pointer would be NULL rather than an empty text.
  const char* data = text.empty() ? "" : text.data();
  if (sqlite3_bind_text64(statement_.get(), parameter, data, text.size(), SQLITE_TRANSIENT,
                          SQLITE_UTF8) != SQLITE_OK) {
    database_->fail();
  }
  return *this;
}

Statement& Statement::bind(int parameter, std::int64_t number) {
  if (sqlite3_bind_int64(statement_.get(), parameter, number) != SQLITE_OK) database_->fail();
  return *this;
}

bool Statement::step() {
  const int result = sqlite3_step(statement_.get());
  if (result == SQLITE_ROW) return true;
  if (result != SQLITE_DONE) database_->fail();
  return false;
}

void Statement::run() {
  while (step()) continue;
}

std::string Statement::text(int column) const {
  // The bytes are counted after the conversion, hence in this order.
  const auto* data = reinterpret_cast<const char*>(sqlite3_column_text(statement_.get(), column));
  const int size = sqlite3_column_bytes(statement_.get(), column);
  return data == nullptr ? std::string() : std::string(data, static_cast<std::size_t>(size));
}

std::int64_t Statement::number(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}

void Database::Close::operator()(sqlite3* handle) const {
  sqlite3_close_v2(handle);
}

Database::Database(fs::path file, Use use) : file_(std::move(file)) {
  const int flags = use == Use::work ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY;
  sqlite3* handle = nullptr;
  const int result = sqlite3_open_v2(file_.c_str(), &handle, flags | SQLITE_OPEN_NOMUTEX, nullptr);
  handle_.reset(handle);
  if (result != SQLITE_OK) fail();
  sqlite3_extended_result_codes(handle, 1);
  sqlite3_busy_timeout(handle, kBusyTimeoutMs);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  if (use == Use::work) {
    run("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON");
    sqlite3_wal_autocheckpoint(handle, kLogPages);
  } else {
    // A file that is shorter than its header says is otherwise refused as a whole.
    run("PRAGMA writable_schema = ON");
  }
}

void Database::merge_log_on_close() {
  sqlite3_db_config(handle_.get(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, nullptr);
}

Statement Database::prepare(std::string_view sql) const {
  sqlite3_stmt* statement = nullptr;
  const int result = sqlite3_prepare_v2(handle_.get(), sql.data(), static_cast<int>(sql.size()),
                                        &statement, nullptr);
  if (result != SQLITE_OK) fail();
  return {*this, statement};
}

void Database::run(const std::string& sql) const {
  if (sqlite3_exec(handle_.get(), sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) fail();
}

std::int64_t Database::number(std::string_view sql) const {
  Statement statement = prepare(sql);
  return statement.step() ? statement.number(0) : 0;
}

int Database::changes() const {
  return sqlite3_changes(handle_.get());
}

void Database::attempt(const std::function<void()>& work) const {
  run("BEGIN IMMEDIATE");
  try {
    work();
    run("COMMIT");
  } catch (...) {
    // SQLite has ended the transaction itself after some errors.
    if (sqlite3_get_autocommit(handle_.get()) == 0) {
      sqlite3_exec(handle_.get(), "ROLLBACK", nullptr, nullptr, nullptr);
    }
    throw;
  }
}

void Database::transact(const std::function<void()>& work) const {
  try {
    return attempt(work);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::storage_full) throw;
  }
  // What the log holds goes over pages that the file has already; the log then begins anew in the
  // space that it has. So records can be removed while nothing else can be written.
  sqlite3_wal_checkpoint_v2(handle_.get(), nullptr, SQLITE_CHECKPOINT_RESTART, nullptr, nullptr);
  attempt(work);
}

void Database::transact_durably(const std::function<void()>& work) const {
  // In WAL mode NORMAL leaves the log to the page cache; FULL has it on the disk at each commit.
  run("PRAGMA synchronous = FULL");
  struct Restore {
    sqlite3* handle;
    ~Restore() { sqlite3_exec(handle, "PRAGMA synchronous = NORMAL", nullptr, nullptr, nullptr); }
  } const restore{handle_.get()};
  transact(work);
}

void Database::fail() const {
  if (!handle_) throw Error(ErrorCode::system_error, str(file_.native(), ": out of memory"));
  const int code = sqlite3_extended_errcode(handle_.get());
  const int primary = code & 0xff;
  const bool is_io = primary == SQLITE_IOERR || primary == SQLITE_CANTOPEN;
  const int error_number = is_io ? sqlite3_system_errno(handle_.get()) : 0;
  const std::string fault = printable(sqlite3_errmsg(handle_.get()));
  if (is_damage(code)) {
    throw DamagedError(str(file_.native(), " is damaged: ", fault));
  }
  const Obstacle obstacle = obstacle_at(file_, error_number);
  if (primary == SQLITE_FULL || means_full(error_number) || (is_io && obstacle.full)) {
    fail_full(file_, obstacle);
  }
  if (primary == SQLITE_READONLY || (is_io && obstacle.read_only)) {
    fail_read_only(file_, obstacle);
  }
  if (primary == SQLITE_BUSY || primary == SQLITE_LOCKED) {
    throw Error(ErrorCode::system_error,
                str(file_.native(), ": another program has it locked: end that one"));
  }
  if (primary == SQLITE_ERROR) {
    throw Error(ErrorCode::internal_error, str(file_.native(), ": ", fault));
  }
  const std::string detail = error_number != 0 ? str(" (", error_text(error_number), ")") : "";
  throw Error(ErrorCode::system_error, str(file_.native(), ": ", fault, detail));
}

}  // namespace caisson::store
