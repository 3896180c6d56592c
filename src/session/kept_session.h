#pragma once
#include <cstdint>
#include <string>

#include "base/clock.h"
#include "model/box_request.h"
#include "model/timestamp.h"

namespace caisson::session {

// What the keeper holds of a session, besides the descriptors of its box: all that the next daemon
// needs to go on with it.
struct KeptSession {
  std::string session_id;
  model::BoxSettings settings;
  std::string box;  // the backend's description: see Backend::adopt()
  model::Timestamp created_at;
  model::Timestamp last_used_at;
  Deadline last_used;  // by the clock that jumps do not touch; it goes on until the host restarts
  std::uint64_t execs = 0;
  bool operator==(const KeptSession&) const = default;
};

std::string kept_session_name(const std::string& session_id);
bool is_kept_session(const std::string& name);

std::string to_text(const KeptSession& session);
// Throws protocol_error, also on what a newer version wrote.
KeptSession read_kept_session(const std::string& text);

}  // namespace caisson::session
