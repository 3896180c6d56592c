#include "api/metered.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <string>

#include "base/error.h"

namespace caisson::api {
namespace {

namespace json = boost::json;

std::string zeros(std::size_t count) {
  std::string text = "[0";
  for (std::size_t i = 1; i < count; ++i) text += ",0";
  return text + "]";
}

TEST(Metered, TakesWhatJsonNeedsFromTheShareUntilItIsGone) {
  const auto budget = std::make_shared<net::Budget>(64u << 20);
  const auto share = budget->make_share();
  share->set_known(true);
  {
    const json::value value = json::parse(zeros(1000), metered(share));
    EXPECT_GE(budget->status().incoming, 1000 * sizeof(json::value));
  }
  EXPECT_EQ(budget->status().incoming, 0u);
}

TEST(Metered, RefusesAShortTextThatWouldTakeALotOfMemory) {
  const auto budget = std::make_shared<net::Budget>(4u << 20);
  const auto share = budget->make_share();
  share->set_known(true);
  try {
    json::parse(zeros(200'000), metered(share));
    FAIL() << "400 kB of text took 5 MB of a budget of 4";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::busy);
  }
  EXPECT_EQ(budget->status().incoming, 0u);
}

}  // namespace
}  // namespace caisson::api
