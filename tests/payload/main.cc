// caisson-payload: what a hostile, a broken and an ordinary program do in a box. Static and small,
// so that it runs in any root file system.
#include <cstdio>
#include <exception>
#include <map>
#include <string>

#include "check.h"
#include "verbs.h"

namespace caisson::payload {
namespace {

constexpr int kUsageExit = 2;

int print_usage() {
  std::fprintf(stderr,
               "usage: caisson-payload list                    rows and names of the checks\n"
               "       caisson-payload check NAME [ARG]        one line, exit 0 when as expected\n"
               "       caisson-payload all [NAME=ARG...]       every check\n");
  for (const Verb& verb : verbs()) {
    std::fprintf(stderr, "       caisson-payload %s %s\n", std::string(verb.name).c_str(),
                 std::string(verb.usage).c_str());
  }
  return kUsageExit;
}

// One line, whatever the detail holds.
bool report(const Check& check, const std::string& argument) {
  Outcome outcome = run_supervised(check, argument);
  for (char& letter : outcome.detail) {
    if (letter == '\n' || letter == '\r') letter = ' ';
  }
  std::printf("%s %s: %s\n", std::string(check.name).c_str(),
              std::string(to_string(outcome.verdict)).c_str(), outcome.detail.c_str());
  std::fflush(stdout);
  return is_expected(outcome.verdict);
}

int run_list(const Words&) {
  for (const Check& check : all_checks()) {
    std::printf("%s %s\n", std::string(check.name).c_str(), std::string(check.rows).c_str());
  }
  return 0;
}

int run_check(const Words& words) {
  if (words.empty() || words.size() > 2) return print_usage();
  for (const Check& check : all_checks()) {
    if (check.name == words[0]) return report(check, words.size() > 1 ? words[1] : "") ? 0 : 1;
  }
  std::fprintf(stderr, "caisson-payload: no check is named %s\n", words[0].c_str());
  return kUsageExit;
}

int run_all(const Words& words) {
  std::map<std::string, std::string, std::less<>> arguments;
  for (const std::string& entry : words) {
    const std::size_t equals = entry.find('=');
    if (equals == std::string::npos) return print_usage();
    arguments[entry.substr(0, equals)] = entry.substr(equals + 1);
  }
  int expected = 0;
  int total = 0;
  for (const Check& check : all_checks()) {
    const auto argument = arguments.find(check.name);
    const bool safe = report(check, argument != arguments.end() ? argument->second : "");
    expected += safe ? 1 : 0;
    ++total;
  }
  std::fprintf(stderr, "%d of %d as expected\n", expected, total);
  return expected == total ? 0 : 1;
}

int dispatch(const Words& words) {
  if (words.empty()) return print_usage();
  const Words rest(words.begin() + 1, words.end());
  if (words[0] == "list") return run_list(rest);
  if (words[0] == "check") return run_check(rest);
  if (words[0] == "all") return run_all(rest);
  for (const Verb& verb : verbs()) {
    if (verb.name == words[0]) return verb.run(rest);
  }
  return print_usage();
}

}  // namespace
}  // namespace caisson::payload

int main(int argc, char** argv) {
  try {
    return caisson::payload::dispatch({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "caisson-payload: %s\n", error.what());
    return 2;
  }
}
