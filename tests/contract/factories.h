#pragma once
#include <boost/asio/any_io_executor.hpp>
#include <filesystem>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "backend/backend.h"

namespace caisson::contract {

// A way to make the backend under test. `state_dir` is empty and goes away with the test.
struct Factory {
  std::string name;
  std::function<std::unique_ptr<backend::Backend>(boost::asio::any_io_executor executor,
                                                  std::filesystem::path state_dir)>
      make;
};

inline void PrintTo(const Factory& factory, std::ostream* out) {
  *out << factory.name;
}

// Every backend there is: a backend that is not in this list has no contract to keep.
std::vector<Factory> factories();

}  // namespace caisson::contract
