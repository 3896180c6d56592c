#include "model/session_info.h"

#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>

#include "model/refusal_for_test.h"

namespace caisson::model {
namespace {

using namespace std::chrono_literals;

SessionInfo example() {
  SessionInfo info;
  info.session_id = "s1";
  info.backend_name = "native";
  info.backend_session_id = "b-1";
  info.created_at = Timestamp(1s + 5us);
  info.last_used_at = Timestamp(2s);
  return info;
}

TEST(SessionInfo, ShowsEveryField) {
  const boost::json::object object = to_json(example());
  EXPECT_EQ(boost::json::serialize(object),
            R"({"session_id":"s1","backend_name":"native","backend_session_id":"b-1",)"
            R"("network":"off","image":"rockchin/langbot-sandbox:latest","host_path":null,)"
            R"("host_path_mode":"rw","mount_path":"/workspace","persistent":false,"cpus":1E0,)"
            R"("memory_mb":512,"pids_limit":128,"read_only_rootfs":true,"workspace_quota_mb":0,)"
            R"("created_at":"1970-01-01T00:00:01.000005Z","last_used_at":"1970-01-01T00:00:02Z"})");
}

TEST(SessionInfo, SurvivesJson) {
  SessionInfo info = example();
  info.box.host_path = "/srv";
  info.box.cpus = 0.5;
  EXPECT_EQ(read_session_info(to_json(info)), info);
}

TEST(SessionInfo, NeedsItsTimes) {
  boost::json::object object = to_json(example());
  object.erase("created_at");
  EXPECT_EQ(refusal_of([&] { read_session_info(object); }), "created_at: is required");
  object["created_at"] = "2026-01-01T00:00:00";
  EXPECT_EQ(refusal_of([&] { read_session_info(object); }), "created_at must include a timezone");
}

}  // namespace
}  // namespace caisson::model
