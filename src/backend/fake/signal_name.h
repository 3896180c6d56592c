#pragma once
#include <optional>
#include <string_view>

namespace caisson::backend::fake {

// "9", "KILL" or "SIGKILL"; nullopt for anything that is not a signal.
std::optional<int> signal_from_text(std::string_view text);

}  // namespace caisson::backend::fake
