#pragma once
#include <boost/json/object.hpp>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "base/unique_fd.h"

namespace caisson::api::rpc {

// Files that a host sends in pieces before the action that uses them. They belong to one
// connection, have no name on disk, and are gone with it.
class Transfers {
 public:
  explicit Transfers(std::filesystem::path directory) : directory_(std::move(directory)) {}

  // One piece, as the action __file_chunk brings it: the first one begins the file anew. Throws a
  // ValueError.
  void add(const boost::json::object& data, std::uint64_t max_bytes);

  // The whole file, from its beginning, which is forgotten here. Throws a ValueError when there is
  // none.
  UniqueFd take(const std::string& key);

 private:
  struct File {
    UniqueFd fd;
    std::uint64_t size = 0;
  };

  std::filesystem::path directory_;
  std::map<std::string, File> files_;
};

}  // namespace caisson::api::rpc
