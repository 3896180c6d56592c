#include "factories.h"

#include <utility>

#include "backend/fake/fake.h"
#include "backend/native/native.h"

namespace caisson::contract {

std::vector<Factory> factories() {
  using boost::asio::any_io_executor;
  using std::filesystem::path;
  Factory fake{"fake", [](any_io_executor executor, path) {
                 return std::make_unique<backend::fake::Fake>(std::move(executor));
               }};
  Factory native{"native", [](any_io_executor executor, path state_dir) {
                   backend::native::Options options;
                   // The locks of owners stay where those of the whole host are: with a directory
                   // of its own, a test would take the number of a living owner.
                   options.state_dir = state_dir / "state";
                   return std::make_unique<backend::native::Native>(std::move(executor),
                                                                    std::move(options));
                 }};
  return {std::move(fake), std::move(native)};
}

}  // namespace caisson::contract
