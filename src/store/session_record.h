#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "model/box_settings.h"
#include "model/timestamp.h"
#include "store/database.h"

namespace caisson::store {

// What a daemon has to know about a session to take it back after a restart.
struct SessionRecord {
  std::string session_id;
  model::BoxSettings settings;
  std::string backend_name;
  std::string backend_session_id;
  model::Timestamp created_at;
  model::Timestamp last_used_at;
  std::int64_t owner = 0;  // the number of the owner that made the box
  bool operator==(const SessionRecord&) const = default;
};

using MetaRecord = std::pair<std::string, std::string>;  // key, value

// Rows of the tables. Each carries a checksum of all of its columns, so that a flipped bit is seen
// before it becomes another path or another limit.
namespace rows {

inline constexpr std::string_view kSelectSessions =
    "SELECT rowid, session_id, spec, backend_name, backend_session_id, created_at, last_used_at,"
    " owner, checksum FROM sessions";
inline constexpr std::string_view kSelectMeta = "SELECT rowid, key, value, checksum FROM meta";

// nullopt when the row is not what was written.
std::optional<SessionRecord> read_session(const Statement& row);
std::optional<MetaRecord> read_meta(const Statement& row);

// Insert or replace. Throws validation_error for a record that could not be read again.
void write(const Database& database, const SessionRecord& record);
void write(const Database& database, const MetaRecord& record);

}  // namespace rows

}  // namespace caisson::store
