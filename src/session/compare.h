#pragma once
#include <boost/json/value.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "model/box_request.h"

namespace caisson::session {

// Whether a session's box is what a caller asks for. Settings of a single call (command, workdir,
// env, timeout) never matter.

// The extra mounts that are shown of these: each once, and none of mode `none`.
std::vector<model::MountSpec> shown_mounts(const std::vector<model::MountSpec>& mounts);

// What has to happen for a box that shows the one to show the other.
struct MountChanges {
  std::vector<model::MountSpec> surplus;
  std::vector<model::MountSpec> missing;
  bool empty() const { return surplus.empty() && missing.empty(); }
};
MountChanges mount_changes(const std::vector<model::MountSpec>& shown,
                           const std::vector<model::MountSpec>& wanted);

// Whether they differ in more than artifacts, which come and go.
bool differs_in_plain_mounts(const model::BoxSettings& existing, const model::BoxSettings& wanted);

// session_conflict: the session has another value of a setting. An interface with sentences of its
// own makes them of its parts.
class SettingsConflict : public Error {
 public:
  SettingsConflict(std::string session_id, std::string setting, boost::json::value existing);
  const std::string& session_id() const { return session_id_; }
  const std::string& setting() const { return setting_; }
  const boost::json::value& existing() const { return existing_; }

 private:
  std::string session_id_;
  std::string setting_;
  boost::json::value existing_;
};

// Throws SettingsConflict when a session with these settings cannot be used by who asks for the
// other ones.
void require_compatible(const model::BoxSettings& existing, const model::BoxRequest& wanted);

}  // namespace caisson::session
