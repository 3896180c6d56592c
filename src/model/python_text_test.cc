#include "model/python_text.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

namespace caisson::model {
namespace {

TEST(PythonText, WritesNumbersAsRepr) {
  EXPECT_EQ(python_text(1.0), "1.0");
  EXPECT_EQ(python_text(0.5), "0.5");
  EXPECT_EQ(python_text(0.0), "0.0");
  EXPECT_EQ(python_text(-2.25), "-2.25");
  EXPECT_EQ(python_text(0.0001), "0.0001");
  EXPECT_EQ(python_text(0.00001), "1e-05");
  EXPECT_EQ(python_text(9007199254740993.0), "9007199254740992.0");
  EXPECT_EQ(python_text(1e16), "1e+16");
  EXPECT_EQ(python_text(1.5e300), "1.5e+300");
}

TEST(PythonText, WritesJsonAsDumpsDoes) {
  const boost::json::value value = boost::json::parse(
      R"({"a":1,"b":[1.0,true,null,-5,18446744073709551615],"c":{},"d":[],"e":"x\"\\\n\r\t\b\f\u0001\u007f/é"})");
  EXPECT_EQ(python_json(value),
            "{\"a\": 1, \"b\": [1.0, true, null, -5, 18446744073709551615], \"c\": {}, \"d\": [], "
            "\"e\": \"x\\\"\\\\\\n\\r\\t\\b\\f\\u0001\x7f/é\"}");
}

}  // namespace
}  // namespace caisson::model
