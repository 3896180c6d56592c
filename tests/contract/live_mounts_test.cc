// What a box is shown while it lives.
#include "backend/artifact_for_test.h"
#include "base/str.h"
#include "contract.h"

namespace caisson::contract {
namespace {

namespace fs = std::filesystem;
using model::MountMode;
using model::MountSpec;

class LiveMounts : public BackendContract {
 protected:
  void show(const MountSpec& mount) { await(box().show(spec(), mount)); }
  void hide(const MountSpec& mount) { await(box().hide(mount)); }

  MountSpec directory(const std::string& name, const std::string& target, MountMode mode) {
    fs::create_directories(temp_.path() / name);
    write_host_file(temp_.path() / name / "f", name);
    return {temp_.path() / name, target, mode};
  }

  MountSpec artifact(const std::string& name, const std::string& content) {
    return backend::write_artifact(temp_.path(), name, content);
  }

  std::string read(const std::string& path) { return run(payload({"cat", path})).out.data; }
};

INSTANTIATE_TEST_SUITE_P(Every, LiveMounts, testing::ValuesIn(factories()),
                         [](const auto& made) { return made.param.name; });

TEST_P(LiveMounts, ComeAndGoWhileWhatRunsGoesOn) {
  ASSERT_EQ(run(shell("echo kept > /tmp/kept")).exit.exit_code, 0);
  const MountSpec inside = directory("inside", "/workspace/.skills/x", MountMode::rw);
  const MountSpec beside = directory("beside", "/tmp/beside/deep", MountMode::ro);
  show(inside);
  show(beside);
  EXPECT_EQ(read("/workspace/.skills/x/f") + read("/tmp/beside/deep/f"), "insidebeside");
  EXPECT_EQ(run(shell("echo new > /workspace/.skills/x/f")).exit.exit_code, 0);
  EXPECT_EQ(read_host_file(temp_.path() / "inside/f"), "new\n");
  EXPECT_NE(run(shell("echo new > /tmp/beside/deep/f")).exit.exit_code, 0);
  EXPECT_EQ(read_host_file(temp_.path() / "beside/f"), "beside");
  hide(inside);
  hide(beside);
  EXPECT_EQ(read("/workspace/.skills/x/f") + read("/tmp/beside/deep/f"), "");
  hide(beside);
  EXPECT_EQ(read("/tmp/kept"), "kept\n");
}

TEST_P(LiveMounts, CoverNothingThatIsMounted) {
  const MountSpec first = directory("first", "/tmp/x", MountMode::ro);
  show(first);
  EXPECT_EQ(code_of(box().show(spec(), directory("second", "/tmp/x", MountMode::ro))),
            ErrorCode::session_conflict);
  EXPECT_THAT(last_message_, HasSubstr("/tmp/x"));
  EXPECT_EQ(code_of(box().show(spec(), directory("third", "/workspace", MountMode::ro))),
            ErrorCode::session_conflict);
  EXPECT_EQ(read("/tmp/x/f"), "first");
}

// Whoever showed it may have been killed before that was noted.
TEST_P(LiveMounts, CanBeShownTwiceWhenTheyAreTheSame) {
  const MountSpec first = directory("first", "/tmp/x", MountMode::ro);
  show(first);
  show(first);
  EXPECT_EQ(read("/tmp/x/f"), "first");
  hide(first);
  EXPECT_EQ(read("/tmp/x/f"), "");
}

TEST_P(LiveMounts, ShowNothingThatABoxMayNotSee) {
  EXPECT_EQ(code_of(box().show(spec(), {"/etc", "/tmp/x", MountMode::ro})),
            ErrorCode::mount_refused);
  MountSpec secret = artifact("skill", "read me");
  secret.host_path = "/root";
  EXPECT_EQ(code_of(box().show(spec(), secret)), ErrorCode::mount_refused);
}

TEST_P(LiveMounts, OfArtifactsAreReadOnlyAndStayWhatTheyWere) {
  const MountSpec skill = artifact("skill", "read me");
  const MountSpec other = artifact("other", "and me");
  show(skill);
  show(other);
  const std::string file = skill.mount_path + "/SKILL.md";
  EXPECT_EQ(read(file) + read(other.mount_path + "/SKILL.md"), "read meand me");
  write_host_file(temp_.path() / "skill/SKILL.md", "changed");
  EXPECT_EQ(read(file), "read me");
  EXPECT_NE(run(shell(str("echo x > ", file))).exit.exit_code, 0);
  EXPECT_NE(run(shell(str("echo x > ", skill.mount_path, "/more"))).exit.exit_code, 0);
  EXPECT_NE(run(shell(str("echo x > ", model::kArtifactRoot, "/more"))).exit.exit_code, 0);
  show(skill);  // once more
  EXPECT_EQ(read(file), "read me");
  hide(skill);
  EXPECT_EQ(read(file) + read(other.mount_path + "/SKILL.md"), "and me");
  // It is verified anew, and is something else by now.
  EXPECT_EQ(code_of(box().show(spec(), skill)), ErrorCode::artifact_refused);
  EXPECT_EQ(last_message_,
            "Immutable artifact preparation failed: Artifact source changed: SKILL.md");
  EXPECT_EQ(read(file), "");
}

TEST_P(LiveMounts, OfABoxThatIsGoneAreAnError) {
  const MountSpec skill = artifact("skill", "read me");
  show(skill);
  await(box().destroy(0ms));
  EXPECT_EQ(code_of(box().show(spec(), skill)), ErrorCode::box_lost);
  EXPECT_EQ(code_of(box().hide(skill)), ErrorCode::box_lost);
}

}  // namespace
}  // namespace caisson::contract
