#pragma once
#include <filesystem>
#include <optional>
#include <string>

namespace caisson::daemon {

// The bearer token that callers of a daemon show, in `<state>/token`. It is never logged and in no
// error. Operators may put one of their own there: 32 to 4096 visible ASCII characters.

// nullopt when there is none. Throws when the file belongs to somebody else, when others can read
// it, and when it holds no usable token.
std::optional<std::string> find_token(const std::filesystem::path& state_dir);

// Makes one of 256 random bits if there is none; a crash leaves a whole one or none. The caller
// holds the lock of the state directory.
std::string load_or_make_token(const std::filesystem::path& state_dir);

}  // namespace caisson::daemon
