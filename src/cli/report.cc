#include "cli/report.h"

#include <unistd.h>

#include <boost/json/serialize.hpp>
#include <string>

#include "base/file.h"
#include "base/str.h"
#include "base/text.h"
#include "base/utf8.h"

namespace caisson::cli {

namespace {

void write_unless_closed(int fd, std::string_view text, std::string_view subject) {
  try {
    write_all(fd, text, subject);
  } catch (const SystemError& error) {
    if (error.error_number() != EPIPE) throw;
  }
}

// Where standard error itself is broken there is nobody left to tell.
void complain(std::string_view prefix, std::string_view sentence) {
  try {
    write_unless_closed(STDERR_FILENO, str(prefix, printable(sentence, 64u << 10), "\n"),
                        "standard error");
  } catch (const SystemError&) {
    return;
  }
}

}  // namespace

void print(std::string_view text) {
  write_unless_closed(STDOUT_FILENO, text, "standard output");
}

void print(const boost::json::object& object) {
  print(boost::json::serialize(object) + "\n");
}

void say(std::string_view sentence) {
  complain("caisson: ", sentence);
}

void note(std::string_view sentence) {
  complain("caisson: note: ", sentence);
}

void note_overridden(std::string_view profile, const std::vector<std::string>& fields) {
  for (const std::string& field : fields) {
    note(str("the profile ", profile, " decides about ", field, ", not the command line"));
  }
}

int report(const Error& error, bool json) {
  if (json) {
    print({{"error", {{"code", to_string(error.code())}, {"message", decode_utf8(error.what())}}}});
  } else {
    say(error.what());
  }
  return exit_code_of(error);
}

int exit_code_of(const Error& error) {
  switch (error.code()) {
    case ErrorCode::validation_error:
      return kExitUsage;
    case ErrorCode::command_not_started:
      // A program that is not there is told apart by its sentence, as there is one code for both.
      return std::string_view(error.what()).find(": not found in the box") != std::string_view::npos
                 ? kExitNotFound
                 : kExitCannotExecute;
    default:
      return kExitFailure;
  }
}

}  // namespace caisson::cli
