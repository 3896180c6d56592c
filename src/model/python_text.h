#pragma once
#include <string>

#include <boost/json/value.hpp>

// Values as Python writes them. Clients match on the sentences of LangBot's runtime, and its
// messages are what json.dumps() makes.
namespace caisson::model {

std::string python_text(bool value);    // "True"
std::string python_text(double value);  // repr(): "1.0", "1e+16"; the number is finite
// str() of what is no list and no object: "None", text without quotes.
std::string python_text(const boost::json::value& value);

// ", " and ": " between, numbers as above; text beyond ASCII stays as it is.
std::string python_json(const boost::json::value& value);

}  // namespace caisson::model
