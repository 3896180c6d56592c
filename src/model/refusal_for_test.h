#pragma once
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <string>
#include <string_view>

#include "base/error.h"

namespace caisson::model {

inline boost::json::value parse_json(std::string_view text) {
  return boost::json::parse(text);
}

// The sentence with which `action` is refused as a validation_error; "" when it is not refused.
template <typename Action>
std::string refusal_of(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::validation_error) << error.what();
    return error.what();
  }
  return "";
}

}  // namespace caisson::model
