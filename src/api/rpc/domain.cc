#include "api/rpc/domain.h"

#include "api/rpc/envelope.h"
#include "base/error.h"
#include "base/str.h"
#include "base/text.h"

namespace caisson::api::rpc {

namespace {

constexpr std::size_t kManyNames = 10'000;

}  // namespace

std::string Domain::physical(const std::string& name) const {
  const std::string_view trimmed = trim(name);
  if (trimmed.empty()) throw Fault("ValueError", "Box session_id must not be empty");
  if (tenant_) {
    const std::string safe = session::safe_name(trimmed);
    if (safe.empty()) throw Fault("ValueError", "Box session_id must contain a valid character");
    return prefix_ + safe;
  }
  if (session::find_placement(trimmed)) {
    throw Fault("ValueError", str("Box session_id ", printable(trimmed),
                                  " is a Workspace's; it needs that Workspace's context"));
  }
  return std::string(trimmed);
}

bool Domain::owns(const std::string& id) const {
  return tenant_ ? id.starts_with(prefix_) : !session::find_placement(id);
}

const std::string* NameBook::find(const std::string& id) const {
  const auto found = names_.find(id);
  return found != names_.end() && sessions_.contains(id) ? &found->second : nullptr;
}

void NameBook::claim(const std::string& id, const std::string& name) {
  const std::string* first = find(id);
  if (first == nullptr) {
    if (names_.size() >= kManyNames) {
      std::erase_if(names_, [this](const auto& entry) { return !sessions_.contains(entry.first); });
    }
    names_[id] = name;
  } else if (*first != name) {
    throw Error(ErrorCode::session_conflict,
                str("Box session ", id, " already exists with session_id=", printable(*first)));
  }
}

void NameBook::check(const std::string& id, const std::string& name,
                     const std::string& shown) const {
  const std::string* first = find(id);
  if (first == nullptr || *first == name || shown == name) return;
  throw Error(ErrorCode::session_not_found, str("session ", id, " not found"));
}

}  // namespace caisson::api::rpc
