#pragma once
#include <map>
#include <optional>
#include <string>

#include "session/registry.h"
#include "session/tenancy.h"

namespace caisson::api::rpc {

// What a caller's names of sessions stand for. A tenant's sessions bear its namespace and
// generation; a host of old has all that are no tenant's. Nobody sees the others'.
class Domain {
 public:
  Domain() = default;  // that of hosts of old
  explicit Domain(session::Tenant tenant)
      : tenant_(std::move(tenant)), prefix_(session::placement_prefix(*tenant_)) {}

  // The session's name in the registry. Throws a ValueError for what cannot be a name.
  std::string physical(const std::string& name) const;
  // As the caller sees it.
  std::string logical(const std::string& id) const { return id.substr(prefix_.size()); }
  bool owns(const std::string& id) const;

  const std::optional<session::Tenant>& tenant() const { return tenant_; }

 private:
  std::optional<session::Tenant> tenant_;
  std::string prefix_;
};

// Under which name each session was asked for first. Different names can come to the same one when
// they are made safe; then they would share files without knowing.
class NameBook {
 public:
  explicit NameBook(const session::Registry& sessions) : sessions_(sessions) {}

  // Throws session_conflict when the session was made under another name, else notes this one.
  void claim(const std::string& id, const std::string& name);
  // Throws session_not_found when the session was made under another name than this, which is not
  // the one shown to clients either.
  void check(const std::string& id, const std::string& name, const std::string& shown) const;

 private:
  const std::string* find(const std::string& id) const;

  const session::Registry& sessions_;
  std::map<std::string, std::string>
      names_;  // also of sessions that are gone, until there are many
};

}  // namespace caisson::api::rpc
