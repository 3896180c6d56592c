#pragma once
#include <boost/json/object.hpp>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "model/config.h"

namespace caisson::service {

// The directories as they are, so that a mount can be judged by where it really is. Throws
// validation_error.
std::vector<std::string> resolved_roots(const std::vector<std::string>& roots);

// The `box` configuration in force. It begins as the operator wrote it; a LangBot host lays its own
// over it whenever it connects.
class BoxConfiguration {
 public:
  // What follows from a change. May be empty.
  using OnChange = std::function<void(const BoxConfiguration&)>;

  // Throws validation_error for roots that cannot be resolved.
  explicit BoxConfiguration(model::BoxConfig config)
      : operators_(config),
        config_(std::move(config)),
        mount_roots_(resolved_roots(operators_.local.allowed_mount_roots)) {}

  const model::BoxConfig& config() const { return config_; }
  void on_change(OnChange handler) { on_change_ = std::move(handler); }

  // Which directories of the host a host configuration may name.
  enum class Roots {
    operators,  // below those that the operator allows
    any,        // whoever sends it has shown that it may say so
  };
  // Lays `submitted` over it: sections that are absent stay as they are. What is the operator's
  // alone (`native`) is not taken from it, and while there are sessions (`in_use`) neither is the
  // backend. Throws validation_error, and nothing has changed then.
  void apply(const boost::json::object& submitted, Roots roots, bool in_use = false);

  // Directories of the host that boxes may show, resolved: the operator's, and those of the
  // configuration in force when its sender may name any.
  const std::vector<std::string>& mount_roots() const { return mount_roots_; }

  // Where sessions work whose host says nothing else; nullopt: there is no such directory.
  std::optional<std::filesystem::path> default_workspace() const;
  // Makes it if it is missing, below one of the roots. Throws validation_error.
  void ensure_default_workspace() const;
  // A workspace's own part of it.
  std::filesystem::path tenant_workspace(const std::string& name_space) const;
  std::filesystem::path skills_root() const;

  // Why boxes cannot be made although the native backend could; empty when they can. `name` is that
  // of the backend there is.
  std::string backend_refusal(std::string_view name) const;

 private:
  model::BoxConfig operators_;
  model::BoxConfig config_;
  std::vector<std::string> mount_roots_;
  OnChange on_change_;
};

}  // namespace caisson::service
