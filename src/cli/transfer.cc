#include "cli/transfer.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <csignal>
#include <cstdio>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/str.h"
#include "base/text.h"
#include "base/utf8.h"
#include "cli/copy.h"
#include "cli/cp.h"
#include "cli/local_files.h"
#include "cli/report.h"

namespace caisson::cli {

namespace {

namespace json = boost::json;

constexpr std::size_t kPiece = 256u << 10;
constexpr int kExitLeftOut = 1;

[[noreturn]] void refuse(const std::string& sentence) {
  throw Error(ErrorCode::validation_error, sentence);
}

// Names the tree itself rather than an entry of another one: its content is meant.
bool names_content(std::string_view base) {
  return base.empty() || base == "." || base == "..";
}

UniqueFd open_directory(const std::string& path) {
  return open_file(path, O_RDONLY | O_DIRECTORY);
}

std::vector<std::string> names_in(int directory, const std::string& shown) {
  UniqueFd copy = open_file_at(directory, ".", O_RDONLY | O_DIRECTORY);
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(copy.get()), ::closedir);
  if (!stream) throw SystemError(shown, errno);
  copy.release();
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(stream.get())) {
    if (is_plain_name(entry->d_name)) names.emplace_back(entry->d_name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

std::string Transfer::shown(std::string_view path) const {
  return str(session_, ":", path);
}

void Transfer::count(std::string_view path, std::size_t bytes) {
  bytes_ += bytes;
  if (line_.due()) line_.show(str("copying ", printable(path), ": ", human_bytes(bytes_)));
}

void Transfer::leave_out(const std::string& path, std::string_view reason) {
  left_out_.emplace_back(decode_utf8(path));
  if (!options_.json) note(str(path, " is left out: ", reason));
}

int Transfer::finish() {
  const int code = left_out_.empty() ? 0 : kExitLeftOut;
  if (options_.json) print({{"files", files_}, {"bytes", bytes_}, {"left_out", left_out_}});
  return code;
}

// ---- into the box ----

Task<std::optional<std::string>> Transfer::next_piece(int file, std::string path) {
  std::string piece(kPiece, '\0');
  ssize_t got = -1;
  while ((got = ::read(file, piece.data(), piece.size())) < 0 && errno == EINTR) {
  }
  piece.resize(static_cast<std::size_t>(check_syscall("the source", got)));
  count(path, piece.size());
  if (piece.empty()) co_return std::nullopt;
  co_return piece;
}

Task<void> Transfer::put(int file, std::string path, mode_t mode) {
  char digits[8];
  std::snprintf(digits, sizeof digits, "%o", mode & 0777u);
  net::ClientRequest request{.method = "PUT",
                             .target = str(path_target(session_, "/files", path), "&mode=", digits),
                             .headers = {{"Content-Type", "application/octet-stream"}},
                             .source = [this, file, path] { return next_piece(file, path); }};
  co_await client_.open(std::move(request));
  while (co_await client_.read_some()) {
  }
  ++files_;
}

// False: an entry that nothing can be made of in the box.
Task<bool> Transfer::put_entry(int directory, std::string name, std::string from, std::string to) {
  struct stat info {};
  check_syscall(from, ::fstatat(directory, name.c_str(), &info, AT_SYMLINK_NOFOLLOW));
  if (S_ISDIR(info.st_mode)) {
    UniqueFd below = open_file_at(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    co_await put_tree(std::move(below), std::move(from), std::move(to));
    co_return true;
  }
  if (!S_ISREG(info.st_mode)) co_return false;
  const UniqueFd file = open_file_at(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  co_await put(file.get(), std::move(to), info.st_mode);
  co_return true;
}

Task<void> Transfer::put_tree(UniqueFd directory, std::string from, std::string to) {
  const std::vector<std::string> names = names_in(directory.get(), from);
  // Directories come into being with what is put into them.
  if (names.empty()) leave_out(from, "it is an empty directory");
  for (const std::string& name : names) {
    const std::string source = join_path(from, name);
    if (!co_await put_entry(directory.get(), name, source, join_path(to, name))) {
      leave_out(source, "it is neither a file nor a directory");
    }
  }
}

Task<int> Transfer::upload(std::string from, std::string to) {
  const bool is_input = from == "-";
  const std::string base = base_name(from);
  if (to.ends_with('/') || co_await is_directory(to)) {
    if (is_input) refuse(str(shown(to), " is a directory: name a file for standard input"));
    if (!names_content(base)) to = join_path(to, base);
  }
  if (is_input) {
    co_await put(STDIN_FILENO, to, 0644);
    co_return finish();
  }
  const UniqueFd file = open_file(from, O_RDONLY);
  struct stat info {};
  check_syscall(from, ::fstat(file.get(), &info));
  if (!S_ISDIR(info.st_mode)) {
    // A pipe has permissions of its own, which say nothing about what comes out of it.
    co_await put(file.get(), to, S_ISREG(info.st_mode) ? info.st_mode : 0644);
    co_return finish();
  }
  if (!options_.recursive) refuse(str(from, " is a directory: copy it with -r"));
  UniqueFd tree = open_directory(from);
  co_await put_tree(std::move(tree), from, to);
  co_return finish();
}

// ---- out of the box ----

Transfer::Target Transfer::local_target(const std::string& path, const std::string& base) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
    if (names_content(base)) return {open_directory(path), "", path};
    return {open_directory(path), base, join_path(path, base)};
  }
  const std::string name = base_name(path);
  if (names_content(name)) throw SystemError(path, ENOENT);
  return {open_directory(parent_path(path)), name, path};
}

std::vector<Transfer::Entry> Transfer::read_entries(const json::value& listing) {
  std::vector<Entry> entries;
  for (const json::value& value : listing.as_object().at("entries").as_array()) {
    const json::object& object = value.as_object();
    entries.push_back({.name = std::string(object.at("name").as_string()),
                       .type = std::string(object.at("type").as_string()),
                       .mode = object.at("mode").to_number<unsigned>()});
  }
  return entries;
}

Task<bool> Transfer::is_directory(std::string path) {
  const auto listing = co_await client_.find(path_target(session_, "/directory", path));
  co_return listing.has_value();
}

// What the directory above says about it. Where it says nothing, it is a plain file or a directory.
Task<Transfer::Entry> Transfer::find_entry(std::string path) {
  const std::string base = base_name(path);
  if (!names_content(base)) {
    const std::string target = path_target(session_, "/directory", parent_path(path));
    std::optional<json::value> listing;
    try {
      listing = co_await client_.find(target);
    } catch (const Error& error) {
      const bool hidden = error.code() == ErrorCode::forbidden;
      if (!hidden && error.code() != ErrorCode::payload_too_large) throw;
    }
    if (listing) {
      for (Entry& entry : read_entries(*listing)) {
        if (entry.name == base && entry.type != "link") co_return std::move(entry);
      }
    }
  }
  Entry entry{.name = base, .type = "file"};
  if (co_await is_directory(path)) entry.type = "directory";
  co_return entry;
}

Task<void> Transfer::open(std::string path) {
  net::ClientRequest request{.target = path_target(session_, "/files", path)};
  co_await client_.open(std::move(request));
}

Task<void> Transfer::get(std::string path, Target target, bool executable) {
  co_await open(path);
  NewFile file(target.directory.get(), target.name, target.shown, executable);
  while (const std::optional<std::string> piece = co_await client_.read_some()) {
    file.write(*piece);
    count(path, piece->size());
  }
  file.commit();
  ++files_;
}

Task<int> Transfer::get_to_output(std::string path) {
  co_await open(path);
  int error = 0;
  const FdSink sink{STDOUT_FILENO, error};
  while (const std::optional<std::string> piece = co_await client_.read_some()) {
    if (sink(*piece)) continue;
    if (error != 0) throw SystemError("standard output", error);
    co_return kExitSignalBase + SIGPIPE;
  }
  co_return 0;
}

Task<void> Transfer::get_entry(Entry entry, std::string from, int directory, std::string to) {
  if (entry.type == "directory") {
    UniqueFd below = make_directory(directory, entry.name, to);
    co_return co_await get_tree(std::move(from), std::move(below), std::move(to));
  }
  if (entry.type != "file")
    co_return leave_out(shown(from), "it is neither a file nor a directory");
  try {
    Target target{open_file_at(directory, ".", O_RDONLY | O_DIRECTORY), entry.name, to};
    co_await get(from, std::move(target), (entry.mode & 0111u) != 0);
  } catch (const SystemError&) {
    throw;
  } catch (const Error& error) {
    // The box goes on working: what it listed may be gone, or be something else by now.
    const bool gone = error.code() == ErrorCode::not_found;
    if (!gone && error.code() != ErrorCode::forbidden) throw;
    leave_out(shown(from), error.what());
  }
}

Task<void> Transfer::get_tree(std::string from, UniqueFd directory, std::string to) {
  const json::value listing =
      co_await client_.call("GET", path_target(session_, "/directory", from));
  for (const Entry& entry : read_entries(listing)) {
    if (!is_plain_name(entry.name)) {
      throw Error(ErrorCode::protocol_error,
                  str(shown(from), " lists an entry \"", printable(entry.name),
                      "\", which could lead out of ", to, ": nothing more is copied"));
    }
    co_await get_entry(entry, join_path(from, entry.name), directory.get(),
                       join_path(to, entry.name));
  }
}

Task<int> Transfer::download(std::string from, std::string to) {
  const Entry entry = co_await find_entry(from);
  const bool is_tree = entry.type == "directory";
  if (is_tree && !options_.recursive) refuse(str(shown(from), " is a directory: copy it with -r"));
  if (to == "-") {
    if (is_tree) refuse(str(shown(from), " is a directory: it cannot go to standard output"));
    co_return co_await get_to_output(from);
  }
  if (!is_tree && to.ends_with('/')) open_directory(to);
  Target target = local_target(to, entry.name);
  if (!is_tree) {
    co_await get(from, std::move(target), (entry.mode & 0111u) != 0);
    co_return finish();
  }
  UniqueFd directory = std::move(target.directory);
  if (!target.name.empty()) directory = make_directory(directory.get(), target.name, target.shown);
  co_await get_tree(from, std::move(directory), target.shown);
  co_return finish();
}

}  // namespace caisson::cli
