#pragma once
#include <boost/json/object.hpp>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "model/config.h"
#include "model/mount_rules.h"

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

  // No host may name `protected_paths`, what is below them or contains them. Throws
  // validation_error for roots that cannot be resolved.
  explicit BoxConfiguration(model::BoxConfig config,
                            const std::vector<std::string>& protected_paths = {});

  const model::BoxConfig& config() const { return config_; }
  void on_change(OnChange handler) { on_change_ = std::move(handler); }

  // Which directories of the host a host configuration may name. Like mounts, never those that no
  // box may see.
  enum class Roots {
    operators,  // below those that the operator allows
    any,        // whoever sends it has shown that it may say so
  };
  // Who sends a configuration.
  struct Sender {
    Roots roots = Roots::operators;
    // It started us, so its relative paths are of our working directory. Those of anybody else are
    // of a directory that only the operator can tell: see sender_directory().
    bool is_parent = false;
  };
  // Lays `submitted` over it: sections that are absent stay as they are. What is the operator's
  // alone (`native`) is not taken from it, and while there are sessions (`in_use`) neither is the
  // backend; nor are mount roots that the host may not name. The default workspace of a `local`
  // section is made if it is missing. Throws validation_error, and mount_refused for a directory;
  // nothing has changed then.
  void apply(const boost::json::object& submitted, Sender sender, bool in_use = false);

  // Directories of the host that boxes may show, resolved: the operator's, and those of the
  // configuration in force when its sender may name any. An operator who names none leaves the
  // choice to such a sender.
  const std::vector<std::string>& mount_roots() const { return rules_.roots; }
  // The same, with what no box may show, and where workspaces have their own.
  const model::MountRules& mount_rules() const { return rules_; }

  // Directories are absolute and were resolved and judged when they were configured. Whoever opens
  // one follows no symlink (base/beneath.h): one that came later leads to what nobody judged.

  // Where sessions work whose host says nothing else; nullopt: there is no such directory.
  std::optional<std::filesystem::path> default_workspace() const { return places_.workspace; }
  // A workspace's own part of it.
  std::filesystem::path tenant_workspace(const std::string& name_space) const;
  std::filesystem::path skills_root() const { return *places_.skills; }

  // Why boxes cannot be made although the native backend could; empty when they can. `name` is that
  // of the backend there is.
  std::string backend_refusal(std::string_view name) const;

 private:
  // What a configuration comes to.
  struct Places {
    std::optional<std::string> host_root;
    std::optional<std::string> workspace;
    std::optional<std::string> skills;  // there always is one
  };
  static Places places_of(const model::LocalConfig& local);
  static std::vector<std::string> shared_of(const Places& places);
  // The directory in which a host with that `host_root` runs, as the operator's `host_root` tells:
  // it is the operator's or, where the operator's ends with the host's, what is before that.
  // "/srv/bot" and "/srv/bot/data/box" both make "./data/box" of a host "/srv/bot/data/box".
  // nullopt: the operator names none.
  std::optional<std::filesystem::path> sender_directory(const model::LocalConfig& local) const;
  void make_absolute(const boost::json::object& submitted, model::LocalConfig& local) const;
  void judge(const Places& named, Roots roots) const;
  void take_roots(model::LocalConfig& local, Roots roots, std::vector<std::string>& allowed) const;

  model::BoxConfig operators_;
  model::BoxConfig config_;
  Places operators_places_;
  Places places_;
  model::MountRules rules_;
  OnChange on_change_;
};

}  // namespace caisson::service
