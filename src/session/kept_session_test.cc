#include "session/kept_session.h"

#include <gtest/gtest.h>

#include <chrono>

#include "base/error.h"

namespace caisson::session {
namespace {

KeptSession sample() {
  KeptSession session;
  session.session_id = "a name";
  session.settings.cpus = 0.1;
  session.settings.persistent = true;
  session.box = R"({"slot":3})";
  session.created_at = model::Timestamp(std::chrono::microseconds(1'700'000'000'000'001));
  session.last_used_at = model::Timestamp(std::chrono::microseconds(1'700'000'000'000'002));
  session.last_used = Deadline(Deadline::duration(123'456'789'012));
  session.execs = 7;
  return session;
}

TEST(KeptSession, ComesBackAsItWas) {
  EXPECT_EQ(read_kept_session(to_text(sample())), sample());
}

// As 0.1 wrote it, with the command that made the session among its settings.
TEST(KeptSession, IsReadAsTheVersionBeforeWroteIt) {
  const std::string text =
      R"({"version":1,"spec":{"session_id":"a name","cmd":"true","workdir":"/workspace",)"
      R"("timeout_sec":30,"network":"off","env":{"A":"1"},)"
      R"("image":"rockchin/langbot-sandbox:latest","host_path":null,"host_path_mode":"rw",)"
      R"("mount_path":"/workspace","extra_mounts":[],"persistent":true,"cpus":"0.1",)"
      R"("memory_mb":512,"pids_limit":128,"read_only_rootfs":true,"workspace_quota_mb":0,)"
      R"("skill_name":null},"box":"{\"slot\":3}","created_at":1700000000000001,)"
      R"("last_used_at":1700000000000002,"last_used":123456789012,"execs":7})";
  EXPECT_EQ(read_kept_session(text), sample());
}

TEST(KeptSession, BelongsToTheWorkspaceThatItsNameTells) {
  KeptSession session = sample();
  session.session_id = "ws-108378aeed2d7cca4480d35e-g1-name";
  EXPECT_EQ(read_kept_session(to_text(session)).settings.name_space, "ws-108378aeed2d7cca4480d35e");
}

TEST(KeptSession, IsRefusedWhenItIsDamagedOrOfAnotherVersion) {
  const std::string text = to_text(sample());
  for (std::size_t length = 0; length < text.size(); ++length) {
    EXPECT_THROW(read_kept_session(text.substr(0, length)), Error) << length;
  }
  std::string newer = text;
  newer.replace(newer.find("\"version\":1"), 11, "\"version\":2");
  EXPECT_THROW(read_kept_session(newer), Error);
  EXPECT_THROW(read_kept_session("[]"), Error);
}

}  // namespace
}  // namespace caisson::session
