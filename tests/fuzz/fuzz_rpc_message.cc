// A message of Action RPC, as any host may send it: passed over, refused as a validation_error, or
// a request; and whatever its number is, the answer has the same one and is a message again.
#include <string>

#include "api/rpc/envelope.h"
#include "base/error.h"
#include "fuzz.h"

namespace {

using namespace caisson;
using namespace caisson::api;
using fuzz::require;

void check_answer(std::string_view answer, std::string_view sequence) {
  const auto object = rpc::read_object(answer);
  require(object.has_value() && object->contains("seq_id"));
  require(!rpc::is_request(*object));
  require(rpc::find_raw(answer, "seq_id") == sequence);
  require(rpc::sequence_text(answer) == sequence);
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::text(data, size);
  const auto message = rpc::read_object(text);
  if (!message) return 0;
  const std::string sequence = rpc::sequence_text(text);
  check_answer(rpc::answer_text(sequence, {}), sequence);
  check_answer(rpc::error_text(sequence, std::string(text)), sequence);
  if (!rpc::is_request(*message)) return 0;
  try {
    const rpc::Request request = rpc::read_request(*message);
    require(!request.tenant || !request.tenant->instance.empty());
  } catch (const Error& refused) {
    require(refused.code() == ErrorCode::validation_error);
  }
  return 0;
}
