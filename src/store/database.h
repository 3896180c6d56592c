#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"

struct sqlite3;
struct sqlite3_stmt;

namespace caisson::store {

// The file is not what was written to it. Whoever opens files sets it aside; in the middle of work
// it is an error like others, and the next start sets the file aside.
class DamagedError : public Error {
 public:
  explicit DamagedError(const std::string& cause)
      : Error(ErrorCode::system_error, cause + "; a restart keeps what can be read of it"),
        cause_(cause) {}
  const std::string& cause() const { return cause_; }  // without the next step

 private:
  std::string cause_;
};

class Database;

// One SQL statement. Columns count from 0, parameters from 1, as in SQLite.
class Statement {
 public:
  Statement& bind(int parameter, std::string_view text);
  Statement& bind(int parameter, std::int64_t number);

  bool step();  // false: there are no more rows
  void run();   // to the end; it has no rows

  std::string text(int column) const;
  std::int64_t number(int column) const;

 private:
  friend class Database;
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  Statement(const Database& database, sqlite3_stmt* statement)
      : database_(&database), statement_(statement) {}

  const Database* database_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

// One SQLite file in one thread. Every failure is an Error that names the file and the cause:
// storage_full when there is no room, DamagedError when the content makes no sense, internal_error
// when the SQL does not fit the tables.
class Database {
 public:
  enum class Use {
    work,    // of an existing file: WAL, synchronous NORMAL, foreign keys
    rescue,  // read what can be read of a damaged one, and change nothing
  };
  Database(std::filesystem::path file, Use use);

  Statement prepare(std::string_view sql) const;
  void run(const std::string& sql) const;           // any number of statements, without parameters
  std::int64_t number(std::string_view sql) const;  // the first column of the first row

  // All of the work or nothing of it: an exception leaves the file as it was and no transaction
  // open. On a full file system the work is done a second time, in the space of the log.
  void transact(const std::function<void()>& work) const;

  // The same, and when it returns a power failure does not undo it either.
  void transact_durably(const std::function<void()>& work) const;

  // Until the content has been judged, closing leaves the file and its log as they are.
  void merge_log_on_close();

  const std::filesystem::path& file() const { return file_; }
  int changes() const;  // rows that the last statement changed
  [[noreturn]] void fail() const;

 private:
  struct Close {
    void operator()(sqlite3* handle) const;
  };
  void attempt(const std::function<void()>& work) const;

  std::filesystem::path file_;
  std::unique_ptr<sqlite3, Close> handle_;
};

// What a failed system call on the file or beside it is, in the same words.
[[noreturn]] void fail_on_storage(const std::filesystem::path& file, int error_number);

}  // namespace caisson::store
