#include "store/session_record.h"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/system/system_error.hpp>
#include <utility>

#include "base/str.h"
#include "base/text.h"
#include "base/utf8.h"
#include "model/box_request.h"
#include "store/checksum.h"

namespace caisson::store {

namespace {
namespace json = boost::json;

// The columns of a session as the table has them.
struct SessionRow {
  std::string session_id;
  std::string spec;
  std::string backend_name;
  std::string backend_session_id;
  std::int64_t created_at = 0;
  std::int64_t last_used_at = 0;
  std::int64_t owner = 0;

  std::int64_t checksum() const {
    return Checksum()
        .add(session_id)
        .add(spec)
        .add(backend_name)
        .add(backend_session_id)
        .add(created_at)
        .add(last_used_at)
        .add(owner)
        .value();
  }
};

std::int64_t checksum_of(const MetaRecord& record) {
  return Checksum().add(record.first).add(record.second).value();
}

model::Timestamp to_timestamp(std::int64_t microseconds) {
  return model::Timestamp(std::chrono::microseconds(microseconds));
}

std::optional<model::BoxSettings> read_settings(const std::string& text) {
  try {
    return model::read_box_settings(json::parse(text));
  } catch (const Error&) {
    return std::nullopt;
  } catch (const boost::system::system_error&) {
    return std::nullopt;
  }
}

// A row that could be written and not read again would be taken for damage at the next start.
void require_readable(const SessionRow& row) {
  const auto refuse = [&](std::string_view fault) {
    throw Error(ErrorCode::validation_error,
                str("session ", printable(row.session_id), " cannot be recorded: ", fault));
  };
  if (!is_utf8(row.session_id)) refuse("its id is not UTF-8");
  if (!read_settings(row.spec)) refuse("its settings are not valid, or not UTF-8");
}

}  // namespace

namespace rows {

std::optional<SessionRecord> read_session(const Statement& row) {
  const SessionRow columns{.session_id = row.text(1),
                           .spec = row.text(2),
                           .backend_name = row.text(3),
                           .backend_session_id = row.text(4),
                           .created_at = row.number(5),
                           .last_used_at = row.number(6),
                           .owner = row.number(7)};
  if (columns.checksum() != row.number(8)) return std::nullopt;
  std::optional<model::BoxSettings> settings = read_settings(columns.spec);
  if (!settings) return std::nullopt;
  return SessionRecord{.session_id = columns.session_id,
                       .settings = *std::move(settings),
                       .backend_name = columns.backend_name,
                       .backend_session_id = columns.backend_session_id,
                       .created_at = to_timestamp(columns.created_at),
                       .last_used_at = to_timestamp(columns.last_used_at),
                       .owner = columns.owner};
}

std::optional<MetaRecord> read_meta(const Statement& row) {
  MetaRecord record(row.text(1), row.text(2));
  if (checksum_of(record) != row.number(3)) return std::nullopt;
  return record;
}

// The name is also among the settings: daemons before 0.2 look for it there.
void write(const Database& database, const SessionRecord& record) {
  json::object spec = model::to_exact_json(record.settings);
  spec["session_id"] = record.session_id;
  const SessionRow row{.session_id = record.session_id,
                       .spec = json::serialize(spec),
                       .backend_name = record.backend_name,
                       .backend_session_id = record.backend_session_id,
                       .created_at = record.created_at.time_since_epoch().count(),
                       .last_used_at = record.last_used_at.time_since_epoch().count(),
                       .owner = record.owner};
  require_readable(row);
  database
      .prepare(
          "INSERT INTO sessions (session_id, spec, backend_name, backend_session_id, created_at,"
          " last_used_at, owner, checksum) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
          " ON CONFLICT (session_id) DO UPDATE SET spec = excluded.spec,"
          " backend_name = excluded.backend_name,"
          " backend_session_id = excluded.backend_session_id, created_at = excluded.created_at,"
          " last_used_at = excluded.last_used_at, owner = excluded.owner,"
          " checksum = excluded.checksum")
      .bind(1, row.session_id)
      .bind(2, row.spec)
      .bind(3, row.backend_name)
      .bind(4, row.backend_session_id)
      .bind(5, row.created_at)
      .bind(6, row.last_used_at)
      .bind(7, row.owner)
      .bind(8, row.checksum())
      .run();
}

void write(const Database& database, const MetaRecord& record) {
  database
      .prepare(
          "INSERT INTO meta (key, value, checksum) VALUES (?, ?, ?)"
          " ON CONFLICT (key) DO UPDATE SET value = excluded.value, checksum = excluded.checksum")
      .bind(1, record.first)
      .bind(2, record.second)
      .bind(3, checksum_of(record))
      .run();
}

}  // namespace rows

}  // namespace caisson::store
