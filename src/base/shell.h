#pragma once
#include <string>
#include <string_view>

namespace caisson {

// A word as sh, bash, zsh and fish read it back, whatever is in it.
std::string shell_quoted(std::string_view word);

}  // namespace caisson
