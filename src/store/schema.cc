#include "store/schema.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"

namespace caisson::store {

namespace fs = std::filesystem;

namespace {

// An empty file that only this user can read; SQLite gives its log the same mode.
void make_empty(const fs::path& file) {
  const UniqueFd fd(::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!fd) fail_on_storage(file, errno);
}

void remove_with_log(const fs::path& file) {
  for (const char* suffix : {"", "-wal", "-shm"}) {
    const std::string name = str(file.native(), suffix);
    if (::unlink(name.c_str()) != 0 && errno != ENOENT) fail_on_storage(name, errno);
  }
}

void rename_durably(const fs::path& from, const fs::path& to) {
  {
    const UniqueFd fd = open_file(from, O_RDONLY);
    if (::fsync(fd.get()) != 0) fail_on_storage(from, errno);
  }
  if (::rename(from.c_str(), to.c_str()) != 0) fail_on_storage(to, errno);
  sync_directory(to.parent_path());
}

void apply(const Database& database, const Schema& schema, std::size_t from) {
  database.transact([&] {
    for (std::size_t version = from; version < schema.size(); ++version) {
      database.run(schema[version]);
    }
    database.run(str("PRAGMA user_version = ", schema.size()));
  });
}

void check_structure(const Database& database) {
  Statement check = database.prepare("PRAGMA quick_check(1)");
  const std::string answer = check.step() ? check.text(0) : "no answer";
  if (answer != "ok") {
    throw DamagedError(str(database.file().native(), " is damaged: ", answer));
  }
}

fs::path back_up(const Database& database, std::size_t version) {
  fs::path backup = str(database.file().native(), ".backup-v", version);
  const fs::path draft = str(backup.native(), ".new");
  remove_with_log(draft);
  make_empty(draft);
  database.prepare("VACUUM INTO ?").bind(1, draft.native()).run();
  rename_durably(draft, backup);
  return backup;
}

}  // namespace

void sync_directory(const fs::path& directory) {
  const UniqueFd fd = open_file(directory, O_RDONLY | O_DIRECTORY);
  if (::fsync(fd.get()) != 0) fail_on_storage(directory, errno);
}

void create_database(const fs::path& file, const Schema& schema,
                     const std::function<void(const Database&)>& fill) {
  const fs::path draft = str(file.native(), ".new");
  remove_with_log(draft);
  make_empty(draft);
  {
    Database database(draft, Database::Use::work);
    apply(database, schema, 0);
    if (fill) database.transact([&] { fill(database); });
    // Left to closing, a failure would go unnoticed and the log would stay behind.
    if (database.number("PRAGMA wal_checkpoint(TRUNCATE)") != 0) fail_on_storage(draft, EBUSY);
    database.merge_log_on_close();
  }
  rename_durably(draft, file);
}

Database open_database(const fs::path& file, const Schema& schema, std::string& report) {
  const std::int64_t version = Database(file, Database::Use::rescue).number("PRAGMA user_version");
  const auto newest = static_cast<std::int64_t>(schema.size());
  if (version > newest) {
    throw Error(ErrorCode::system_error,
                str(file.native(), " has version ", version, ", and this program knows up to ",
                    newest, ": a newer caisson wrote it; start that one, or move the file away"));
  }
  if (version <= 0) throw DamagedError(str(file.native(), " is damaged: it has no version"));
  Database database(file, Database::Use::work);
  check_structure(database);
  if (version < newest) {
    const auto from = static_cast<std::size_t>(version);
    const fs::path backup = back_up(database, from);
    apply(database, schema, from);
    report = str(file.native(), ": brought from version ", version, " to ", newest,
                 "; the old one is kept as ", backup.native());
  }
  return database;
}

}  // namespace caisson::store
