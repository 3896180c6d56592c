#pragma once
#include <boost/asio/awaitable.hpp>

namespace caisson {

// What every coroutine returns. Data is taken by value, services by reference.
template <typename T>
using Task = boost::asio::awaitable<T>;

}  // namespace caisson
