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
  void* do_allocate(std::size_t size, std::size_t alignment) override {
    if (!held_.resize(held_.bytes() + size)) {
      throw Error(ErrorCode::busy,
                  "the daemon has no room for what this request holds; try again in a moment");
    }
    return ::operator new(size, std::align_val_t(alignment));
  }
  void do_deallocate(void* place, std::size_t size, std::size_t alignment) override {
    ::operator delete(place, std::align_val_t(alignment));
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
