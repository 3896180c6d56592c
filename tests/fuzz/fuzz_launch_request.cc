// What the launcher reads from its owner: plans, step by step.
#include "fuzz.h"
#include "wire/launch.h"

namespace {

// A plan that can be read can be shown to people.
void describe_steps(const caisson::wire::LaunchRequest& request) {
  const auto describe_all = [](const caisson::wire::Plan& plan) {
    for (const caisson::wire::Step& step : plan) {
      caisson::fuzz::require(!caisson::wire::describe(step).empty());
    }
  };
  if (const auto* made = std::get_if<caisson::wire::BuildTemplate>(&request)) {
    describe_all(made->plan);
  } else if (const auto* box = std::get_if<caisson::wire::LaunchBox>(&request)) {
    describe_all(box->plan);
  } else if (const auto* rest = std::get_if<caisson::wire::FinishBox>(&request)) {
    describe_all(rest->plan);
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto decode = [](std::string_view bytes) {
    caisson::wire::LaunchRequest request = caisson::wire::decode_launch_request(bytes);
    describe_steps(request);
    return request;
  };
  caisson::fuzz::decode_and_encode(decode, caisson::fuzz::text(data, size));
  return 0;
}
