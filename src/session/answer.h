#pragma once
#include <optional>
#include <string>

#include "base/error.h"
#include "session/session.h"
#include "store/execution_record.h"

namespace caisson::session {

// How a command with a request id ended: everybody who asks gets the same bytes.
struct Answer {
  std::string text;            // the ExecResult as JSON; empty with an error
  std::optional<Error> error;  // instead, when the command was begun and has no result
};

// As it is recorded.
std::string stored_text(const Answer& answer);
Answer read_answer(store::ExecutionRecord record);

// Tells a repeated request from another one: the same for every way to write the same.
std::string request_hash(const ExecRequest& request);

}  // namespace caisson::session
