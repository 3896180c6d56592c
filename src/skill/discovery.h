#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace caisson::skill {

struct FoundPackage {
  std::string path;  // from where the search began; "" is that directory itself
  std::string entry_file;
};

// The packages in an open directory and up to `depth` levels below it: breadth first, by name,
// never inside of a package, never through a symlink. Directories that `skip` names (of the first
// level) are left out, as are those that cannot be read. Throws validation_error beyond
// kMaxScannedEntries and kMaxPackages.
std::vector<FoundPackage> discover(int start, unsigned depth,
                                   const std::function<bool(std::string_view)>& skip = {});

}  // namespace caisson::skill
