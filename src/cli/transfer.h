#pragma once
#include <sys/types.h>

#include <boost/json/array.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "async/task.h"
#include "base/unique_fd.h"
#include "cli/daemon_client.h"
#include "cli/terminal.h"

namespace caisson::cli {

struct TransferOptions {
  bool recursive = false;
  bool json = false;
  bool progress = false;  // on a terminal
};

// Copies between our files and those of one session, in pieces: no file is ever held whole. Local
// paths may be "-", a standard stream. Links are neither followed nor copied within trees.
class Transfer {
 public:
  Transfer(DaemonClient& client, std::string session, TransferOptions options)
      : client_(client), session_(std::move(session)), options_(options), line_(options.progress) {}

  // Both give the exit code: 1 when something of a tree had to be left out.
  Task<int> upload(std::string from, std::string to);
  Task<int> download(std::string from, std::string to);

 private:
  // What a box says about one of its files.
  struct Entry {
    std::string name;
    std::string type;  // "file", "directory", "link", "other"
    unsigned mode = 0;
  };
  // Where a copy goes on our side: an entry of a directory, or the directory itself.
  struct Target {
    UniqueFd directory;
    std::string name;  // empty: the directory itself
    std::string shown;
  };

  std::string shown(std::string_view path) const;

  Task<void> put(int file, std::string path, mode_t mode);
  Task<std::optional<std::string>> next_piece(int file, std::string path);
  Task<void> put_tree(UniqueFd directory, std::string from, std::string to);
  Task<bool> put_entry(int directory, std::string name, std::string from, std::string to);

  Task<bool> is_directory(std::string path);
  Task<Entry> find_entry(std::string path);
  Task<void> open(std::string path);
  Task<void> get(std::string path, Target target, bool executable);
  Task<int> get_to_output(std::string path);
  Task<void> get_tree(std::string from, UniqueFd directory, std::string to);
  Task<void> get_entry(Entry entry, std::string from, int directory, std::string to);

  static Target local_target(const std::string& path, const std::string& base);
  static std::vector<Entry> read_entries(const boost::json::value& listing);
  void count(std::string_view path, std::size_t bytes);
  void leave_out(const std::string& path, std::string_view reason);
  int finish();

  DaemonClient& client_;
  std::string session_;
  const TransferOptions options_;
  ProgressLine line_;
  std::uint64_t files_ = 0;
  std::uint64_t bytes_ = 0;
  boost::json::array left_out_;
};

}  // namespace caisson::cli
