#pragma once
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "quota/quota.h"

namespace caisson::quota {

// How far a limited directory has come; what a crash interrupts is taken up from here.
enum class Phase {
  preparing,  // begun; the directory is as it was
  emptying,   // the data is in its new place; the old copy is being removed
  live,       //
  returning,  // the data is beside the directory and about to take its place, without a limit
};

// What is written down about one limited directory.
struct Record {
  std::string driver;
  Phase phase = Phase::preparing;
  Limit limit;
  std::uint32_t project = 0;  // of project quotas
  std::filesystem::path directory;
  bool operator==(const Record&) const = default;
};

std::string to_text(const Record& record);
std::optional<Record> parse_record(std::string_view text);

// The name under which a directory's things are kept.
std::string record_id(const std::filesystem::path& directory);

// The absolute path of the directory with every link but its own last name resolved.
std::filesystem::path resolve_directory(const std::filesystem::path& directory);
// The same of one that is made, with its parents, if it is missing. Throws when it is not absolute,
// a link, or no directory.
std::filesystem::path settle_directory(const std::filesystem::path& directory);

// A path beside the directory, on its file system: where data waits to take the directory's place.
std::filesystem::path beside(const Record& record);

// Throws validation_error when one is below the least.
void check_limit(const Limit& limit);
// Throws storage_full, naming both, when the directory holds more than it may.
void check_fits(const std::filesystem::path& directory, const Limit& used, const Limit& limit);

// The records of one driver: a file each in a directory that is ours alone. Drivers may share it.
class Ledger {
 public:
  Ledger(std::filesystem::path root, std::string driver)
      : root_(std::move(root)), driver_(std::move(driver)) {}

  // Throws validation_error when another driver has the directory.
  std::optional<Record> find(const std::filesystem::path& directory) const;
  Record get(const std::filesystem::path& directory) const;  // throws not_found
  void put(const Record& record);  // durable; makes the root if it is missing
  void remove(const std::filesystem::path& directory);

  // At the start of a daemon: removes what one before it was killed over while it wrote.
  void sweep();

  std::vector<Record> list(std::vector<std::string>& problems) const;
  // After a sweep, calls `restore` with each record, which answers whether its limit is in force;
  // one that fails does not keep the others from their turn.
  Recovery restore_each(
      const std::function<bool(Record& record, std::vector<std::string>& problems)>& restore);
  std::set<std::string> ids() const;  // of all drivers, of unreadable records as well

  const std::filesystem::path& root() const { return root_; }
  std::filesystem::path file(std::string_view name) const { return root_ / name; }
  void make_root() const;  // 0700

 private:
  std::filesystem::path root_;
  std::string driver_;
};

}  // namespace caisson::quota
