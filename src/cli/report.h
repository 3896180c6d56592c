#pragma once
#include <boost/json/object.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace caisson::cli {

// What the program exits with when it does not pass on the exit code of a command.
inline constexpr int kExitUsage = 2;
inline constexpr int kExitTimeout = 124;
inline constexpr int kExitFailure = 125;  // of caisson itself
inline constexpr int kExitCannotExecute = 126;
inline constexpr int kExitNotFound = 127;
inline constexpr int kExitSignalBase = 128;  // plus the number of the signal

// Data goes to standard output, all else to standard error. A reader that has gone is not an error.
void print(std::string_view text);
void print(const boost::json::object& object);  // on one line
void say(std::string_view sentence);            // "caisson: <sentence>" on standard error
void note(std::string_view sentence);           // "caisson: note: <sentence>" on standard error
// A note about each field that the profile decided against the caller.
void note_overridden(std::string_view profile, const std::vector<std::string>& fields);

// Tells an error in the form that was asked for and gives the exit code that belongs to it.
int report(const Error& error, bool json);
int exit_code_of(const Error& error);

}  // namespace caisson::cli
