#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"

// Directories that take long to fill or to remove. They are filled under a name of no meaning, get
// their own by a rename when they are whole, and lose it before they are removed. Who is at it
// holds a lock on the directory; one that nobody holds was left by a process that is gone.
namespace caisson::backend::native {

inline constexpr std::string_view kDraftPrefix = ".new-";
inline constexpr std::string_view kRemovedPrefix = ".old-";

std::string random_name(std::string_view prefix);

// False when somebody else holds it.
bool try_lock(int directory);

// One that is half made or half removed, locked so that nobody else removes it.
struct Leftover {
  UniqueFd lock;
  std::string name;
};
std::vector<Leftover> find_leftovers(const std::filesystem::path& place, int place_fd);

// What cannot be removed is logged, and is the next one's to remove.
void remove_leftover(int place, const std::string& name);

// Every entry but "." and "..". A directory that does not exist has none.
std::vector<std::string> names_in(const std::filesystem::path& directory);

}  // namespace caisson::backend::native
