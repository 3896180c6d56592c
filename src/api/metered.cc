#include "api/metered.h"

#include <boost/json/memory_resource.hpp>
#include <new>
#include <utility>

#include "base/error.h"

namespace caisson::api {

namespace json = boost::json;

namespace {

class Metered final : public json::memory_resource {
 public:
  explicit Metered(std::shared_ptr<net::Share> share) : held_(std::move(share)) {}

 private:
  // Boost.JSON gives keys back with another alignment than it asked for; what is ordinary holds for
  // all that it asks for.
  void* do_allocate(std::size_t size, std::size_t) override {
    if (!held_.resize(held_.bytes() + size)) {
      throw Error(ErrorCode::busy,
                  "the daemon has no room for what this request holds; try again in a moment");
    }
    return ::operator new(size);
  }
  void do_deallocate(void* place, std::size_t size, std::size_t) override {
    ::operator delete(place);
    held_.set(held_.bytes() - size);
  }
  bool do_is_equal(const json::memory_resource& other) const noexcept override {
    return this == &other;
  }

  net::Charge held_;
};

}  // namespace

json::storage_ptr metered(std::shared_ptr<net::Share> share) {
  if (!share) return {};
  return json::make_shared_resource<Metered>(std::move(share));
}

}  // namespace caisson::api
