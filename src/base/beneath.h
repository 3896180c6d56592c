#pragma once
#include <sys/stat.h>

#include <optional>
#include <string>
#include <string_view>

#include "base/unique_fd.h"

namespace caisson {

// Opens what untrusted people may change at any moment. A path is resolved by the kernel in one
// step, from an open directory, and what was judged is what is used: nothing is looked at by its
// path first and opened by it afterwards.

// Symlinks on the way, the last component included: none at all, or those that stay beneath the
// directory. An absolute one never does. The kernel's own links in /proc are never followed.
enum class Links { refuse, inside };

// The descriptor is invalid and errno says why when it fails: ENOENT, ENOTDIR, EXDEV (leads out of
// the directory), ELOOP (a symlink where none may be). "" is the directory itself. Never waits for
// the other end of a fifo. Throws SystemError when there are no descriptors or no memory, which
// says nothing about the path.
UniqueFd open_beneath(int directory, const std::string& path, int flags, Links links);

// What is there; nullopt when there is nothing or the way leads out.
std::optional<struct stat> stat_beneath(int directory, const std::string& path, Links links);

bool is_file_beneath(int directory, const std::string& path);       // inside links are followed
bool is_directory_beneath(int directory, const std::string& path);  // likewise

// Makes the directory if it is missing, for the owner of the one it is in, and opens it; no symlink
// is followed. `name` is one component.
UniqueFd make_directory_at(int directory, const std::string& name, std::string_view subject);

// The same for an absolute path in normal form that somebody resolved and judged before: there is
// no symlink in it, so one on the way came later and is refused (ELOOP).
UniqueFd open_absolute(const std::string& path, int flags);

// The directory at such a path. What is missing of it is made, each for the owner of the one it is
// in. The descriptor may be one of O_PATH. Throws SystemError.
UniqueFd make_directories(const std::string& path);

// A relative path in normal form: no ".", no "..", no empty component; "" is the directory itself.
// nullopt when it is absolute, leads out or holds a NUL.
std::optional<std::string> normal_relative(std::string_view path);

// An absolute path without symlinks, as far as it exists. nullopt when it cannot be told. By the
// time it is used it may be wrong: it only finds out what somebody means.
std::optional<std::string> canonical_path(const std::string& path);

std::string join_path(std::string_view directory, std::string_view name);  // "" joins nothing

}  // namespace caisson
