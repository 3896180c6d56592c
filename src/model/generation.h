#pragma once
#include <cstdint>

namespace caisson::model {

// Of a workspace's placement: hosts count them up from 1.
inline constexpr std::int64_t kMaxGeneration = 2'147'483'647;

}  // namespace caisson::model
