#pragma once
#include <dirent.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace caisson {

// Every entry of an open directory but "." and "..", in no order. The descriptor may be one of
// O_PATH. The subject is for errors.
void for_each_entry(int directory, std::string_view subject,
                    const std::function<void(const dirent&)>& visit);

// Removes `name` in `directory` with all that is below it and never follows a symlink. What is gone
// already is not an error. Takes a bounded number of descriptors, however deep the tree is.
void remove_tree(int directory, const std::string& name);

// What is nested deeper is not looked at: each level takes descriptors.
inline constexpr unsigned kDeepestTree = 200;

struct TreeUsage {
  std::uint64_t size = 0;         // of what is no directory, as it says
  std::uint64_t allocated = 0;    // on the disk, directories included
  std::uint64_t files = 0;        // whatever is no directory
  std::uint64_t directories = 0;  // without the one that is measured
  std::uint64_t errors = 0;       // what could not be looked at, or lies deeper than kDeepestTree
};

// What is below a directory. Follows no symlink; a file with several names counts once; what goes
// away meanwhile is not there.
TreeUsage measure_tree(int directory);

}  // namespace caisson
