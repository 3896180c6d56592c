#include "cli/signals.h"

#include <csignal>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/str.h"
#include "base/text.h"

namespace caisson::cli {

namespace {

// Second names of signals that have another one here.
constexpr std::pair<std::string_view, int> kAliases[] = {
    {"iot", SIGABRT}, {"cld", SIGCHLD}, {"io", SIGIO}};

int find_signal(std::string_view name) {
  for (const auto& [alias, number] : kAliases) {
    if (alias == name) return number;
  }
  for (int number = 1; number < NSIG; ++number) {
    const char* known = ::sigabbrev_np(number);
    if (known != nullptr && to_lower(known) == name) return number;
  }
  return 0;
}

}  // namespace

int parse_signal(std::string_view text) {
  const std::string word = to_lower(trim(text));
  std::string_view name = word;
  if (const auto number = parse_integer(name)) {
    if (*number >= 1 && *number < NSIG) return static_cast<int>(*number);
  } else {
    if (name.starts_with("sig")) name.remove_prefix(3);
    if (const int found = find_signal(name); found != 0) return found;
  }
  throw Error(ErrorCode::validation_error,
              str("\"", printable(text), "\" is no signal: name one, as TERM or SIGTERM, or give ",
                  "its number, from 1 to ", NSIG - 1));
}

std::string signal_text(int number) {
  const char* name = ::sigabbrev_np(number);
  return name != nullptr ? str("SIG", name) : str("signal ", number);
}

bool is_ignored(int number) {
  struct sigaction current {};
  check_syscall("sigaction", ::sigaction(number, nullptr, &current));
  return current.sa_handler == SIG_IGN;
}

}  // namespace caisson::cli
