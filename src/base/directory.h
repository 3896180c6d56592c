#pragma once
#include <dirent.h>

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

}  // namespace caisson
