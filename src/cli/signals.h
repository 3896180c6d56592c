#pragma once
#include <string>
#include <string_view>

namespace caisson::cli {

// "TERM", "SIGTERM", "term" and "15" are 15. Throws validation_error for what is no signal.
int parse_signal(std::string_view text);

std::string signal_text(int number);  // "SIGTERM"; "signal 40" for one without a name

// A program that was started with a signal ignored (nohup, a job in the background) leaves it so.
bool is_ignored(int number);

}  // namespace caisson::cli
