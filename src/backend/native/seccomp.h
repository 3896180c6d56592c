#pragma once
#include <linux/filter.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace caisson::backend::native {

// What a box may ask of the kernel: an allow-list. A call that is denied on purpose gives EPERM,
// one that is not listed gives ENOSYS, as an older kernel would, so that programs fall back. A
// foreign ABI ends the process. Python, node, git, gcc and a JVM run under it.

// The calls that are allowed whatever their arguments, by name.
const std::vector<std::string_view>& allowed_calls();
// The calls that are known and denied, by name.
const std::vector<std::string_view>& denied_calls();

// The program for this machine's architecture: a balanced tree over call numbers, so that a call is
// decided in a few comparisons, and short enough that installing it costs microseconds.
std::vector<sock_filter> build_filter();

// The same as bytes, ready for wire::InstallFilter.
std::string filter_bytes(const std::vector<sock_filter>& program);

}  // namespace caisson::backend::native
