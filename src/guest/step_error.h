#pragma once
#include <cerrno>
#include <string>
#include <utility>

namespace caisson::guest {

// A step of a plan failed. Travels as a message to the owner, who knows what it means for the box.
struct StepError {
  std::string step;
  int error_number = 0;
};

// Returns `result` unless it is negative; then throws StepError with errno.
template <typename T>
T check_step(const std::string& step, T result) {
  if (result < 0) throw StepError{step, errno};
  return result;
}

}  // namespace caisson::guest
