#pragma once
#include <string_view>

namespace caisson::skill {

// In a catch of SystemError: throws storage_full instead of that of a full disk or quota, and any
// other as it is.
[[noreturn]] void rethrow_storage_error(std::string_view subject);

}  // namespace caisson::skill
