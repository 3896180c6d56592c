#pragma once
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace caisson::benchmarks {

struct Options {
  std::optional<std::filesystem::path> json;
  std::set<std::string> only;  // names of measurements; empty: all
  bool quick = false;
  bool trace = false;
  bool help = false;

  bool wants(const std::string& measurement) const {
    return only.empty() || only.contains(measurement);
  }
};

// Throws validation_error naming the argument that is not understood.
Options read_options(const std::vector<std::string>& arguments,
                     const std::vector<std::string>& measurements);

std::string usage(const std::vector<std::string>& measurements);

}  // namespace caisson::benchmarks
