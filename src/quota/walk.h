#pragma once
#include <sys/stat.h>

#include <functional>
#include <string>

namespace caisson::quota {

// The names in a directory as they were at the beginning. Throws when `depth` is more than
// kDeepestTree.
void for_each_name(int directory, unsigned depth,
                   const std::function<void(const std::string& name)>& visit);

// Everything below the directory, parents first: the directory it is in, its name, what it is.
// Links are not followed.
void walk(int directory,
          const std::function<void(int parent, const std::string& name, const struct stat& status)>&
              visit,
          unsigned depth = 0);

}  // namespace caisson::quota
