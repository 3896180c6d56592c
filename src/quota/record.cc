#include "quota/record.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/sha256.h"
#include "base/str.h"
#include "base/text.h"

namespace caisson::quota {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kHeading = "caisson quota 1";
constexpr std::string_view kSuffix = ".record";
constexpr std::pair<Phase, std::string_view> kPhases[] = {{Phase::preparing, "preparing"},
                                                          {Phase::emptying, "emptying"},
                                                          {Phase::live, "live"},
                                                          {Phase::returning, "returning"}};

std::string_view to_string(Phase phase) {
  for (const auto& [value, name] : kPhases) {
    if (value == phase) return name;
  }
  return "";
}

bool read_number(std::string_view text, std::uint64_t& number) {
  const std::optional<long long> value = parse_integer(text);
  if (!value || *value < 0) return false;
  number = static_cast<std::uint64_t>(*value);
  return true;
}

bool read_field(Record& record, std::string_view name, std::string_view value) {
  if (name == "driver") record.driver = value;
  if (name == "directory") record.directory = fs::path(value);
  if (name == "bytes") return read_number(value, record.limit.bytes);
  if (name == "inodes") return read_number(value, record.limit.inodes);
  if (name == "project") {
    std::uint64_t number = 0;
    if (!read_number(value, number)) return false;
    record.project = static_cast<std::uint32_t>(number);
    return number <= std::numeric_limits<std::uint32_t>::max();
  }
  if (name == "phase") {
    const auto* found = std::find_if(std::begin(kPhases), std::end(kPhases),
                                     [&](const auto& phase) { return phase.second == value; });
    if (found == std::end(kPhases)) return false;
    record.phase = found->first;
  }
  return true;
}

}  // namespace

std::string to_text(const Record& record) {
  return str(kHeading, "\ndriver ", record.driver, "\nphase ", to_string(record.phase), "\nbytes ",
             record.limit.bytes, "\ninodes ", record.limit.inodes, "\nproject ", record.project,
             "\ndirectory ", record.directory.native(), "\n");
}

std::optional<Record> parse_record(std::string_view text) {
  std::vector<std::string_view> lines = split(text, '\n');
  // A record that was not written to its end has no last newline.
  if (lines.size() != 8 || lines.front() != kHeading || !lines.back().empty()) return std::nullopt;
  Record record;
  for (std::size_t at = 1; at + 1 < lines.size(); ++at) {
    const std::size_t space = lines[at].find(' ');
    if (space == std::string_view::npos) return std::nullopt;
    if (!read_field(record, lines[at].substr(0, space), lines[at].substr(space + 1))) {
      return std::nullopt;
    }
  }
  if (record.driver.empty() || !record.directory.is_absolute()) return std::nullopt;
  return record;
}

std::string record_id(const fs::path& directory) {
  return sha256_hex(directory.native()).substr(0, 32);
}

fs::path resolve_directory(const fs::path& directory) {
  const fs::path plain = directory.has_filename() ? directory : directory.parent_path();
  if (!directory.is_absolute() || !plain.has_filename() || plain.filename() == "." ||
      plain.filename() == ".." || directory.native().find('\n') != std::string::npos) {
    throw Error(
        ErrorCode::validation_error,
        str(printable(directory.native()), ": a directory to be limited needs an absolute path"));
  }
  std::error_code failure;
  const fs::path parent = fs::weakly_canonical(plain.parent_path(), failure);
  if (failure) throw SystemError(plain.parent_path().native(), failure.value());
  return parent / plain.filename();
}

fs::path settle_directory(const fs::path& directory) {
  fs::path settled = resolve_directory(directory);
  std::error_code failure;
  fs::create_directories(settled.parent_path(), failure);
  if (failure) throw SystemError(settled.parent_path().native(), failure.value());
  if (::mkdir(settled.c_str(), 0755) < 0 && errno != EEXIST) {
    throw SystemError(settled.native(), errno);
  }
  struct stat status {};
  check_syscall(settled.native(), ::lstat(settled.c_str(), &status));
  if (!S_ISDIR(status.st_mode)) {
    throw Error(ErrorCode::validation_error,
                str(settled.native(), ": it is not a directory, so it cannot be limited"));
  }
  return settled;
}

fs::path beside(const Record& record) {
  return record.directory.parent_path() / str(".caisson-quota-", record_id(record.directory));
}

void check_limit(const Limit& limit) {
  if (limit.bytes >= kLeastBytes && limit.inodes >= kLeastInodes) return;
  throw Error(ErrorCode::validation_error,
              str("a limit of ", limit.bytes, " bytes and ", limit.inodes,
                  " inodes: the least are ", kLeastBytes, " and ", kLeastInodes));
}

void check_fits(const fs::path& directory, const Limit& used, const Limit& limit) {
  if (used.bytes <= limit.bytes && used.inodes <= limit.inodes) return;
  throw Error(ErrorCode::storage_full,
              str(directory.native(), " holds ", used.bytes, " bytes in ", used.inodes,
                  " inodes, more than the limit of ", limit.bytes, " and ", limit.inodes,
                  "; remove some of it or set a higher limit"));
}

std::optional<Record> Ledger::find(const fs::path& directory) const {
  const fs::path path = file(str(record_id(directory), kSuffix));
  const std::optional<std::string> content = find_file_content(path);
  if (!content) return std::nullopt;
  std::optional<Record> record = parse_record(*content);
  if (!record) {
    throw Error(ErrorCode::system_error,
                str(path.native(), ": the record of ", directory.native(),
                    " is damaged; restore it or remove it together with what it names"));
  }
  if (record->driver != driver_) {
    throw Error(ErrorCode::validation_error,
                str(directory.native(), " is limited by the driver ", record->driver,
                    "; release it there before ", driver_, " takes it"));
  }
  return record;
}

Record Ledger::get(const fs::path& directory) const {
  if (std::optional<Record> record = find(directory)) return *std::move(record);
  throw Error(ErrorCode::not_found, str(directory.native(), " has no limit"));
}

void Ledger::make_root() const {
  std::error_code failure;
  fs::create_directories(root_, failure);
  if (failure) throw SystemError(root_.native(), failure.value());
  check_syscall(root_.native(), ::chmod(root_.c_str(), 0700));
}

void Ledger::put(const Record& record) {
  make_root();
  replace_file(file(str(record_id(record.directory), kSuffix)), to_text(record), 0600);
}

void Ledger::remove(const fs::path& directory) {
  const fs::path path = file(str(record_id(directory), kSuffix));
  if (::unlink(path.c_str()) < 0 && errno != ENOENT) throw SystemError(path.native(), errno);
}

std::set<std::string> Ledger::ids() const {
  std::set<std::string> found;
  std::error_code absent;  // no root: no records
  for (const fs::directory_entry& entry : fs::directory_iterator(root_, absent)) {
    const std::string name = entry.path().filename();
    if (name.ends_with(kSuffix)) found.insert(name.substr(0, name.size() - kSuffix.size()));
  }
  return found;
}

void Ledger::sweep() {
  std::error_code absent;  // no root: no records
  for (const fs::directory_entry& entry : fs::directory_iterator(root_, absent)) {
    // The names of replace_file(): the record's, and six characters.
    if (entry.path().stem().extension() != kSuffix) continue;
    check_syscall(entry.path().native(), ::unlink(entry.path().c_str()));
  }
}

std::vector<Record> Ledger::list(std::vector<std::string>& problems) const {
  std::vector<Record> records;
  for (const std::string& id : ids()) {
    const fs::path path = file(str(id, kSuffix));
    std::optional<Record> record = parse_record(find_file_content(path).value_or(""));
    if (!record || record_id(record->directory) != id) {
      problems.push_back(
          str(path.native(), ": the record is damaged; nothing it may name is touched"));
    } else if (record->driver == driver_) {
      records.push_back(*std::move(record));
    }
  }
  return records;
}

Recovery Ledger::restore_each(
    const std::function<bool(Record& record, std::vector<std::string>& problems)>& restore) {
  Recovery result;
  sweep();
  for (Record& record : list(result.problems)) {
    try {
      if (restore(record, result.problems)) result.limited.push_back(record.directory);
    } catch (const Error& error) {
      result.problems.push_back(
          str(record.directory.native(), ": its limit is not in force: ", error.what()));
    }
  }
  return result;
}

}  // namespace caisson::quota
