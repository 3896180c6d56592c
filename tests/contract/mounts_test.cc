#include <sys/stat.h>

#include "contract.h"

namespace caisson::contract {

namespace fs = std::filesystem;

TEST_P(BackendContract, MountedWorkspaceIsSharedWithTheHost) {
  write_host_file(workspace() / "from-host", "written outside");
  const RunResult result =
      run(shell("cat /workspace/from-host; echo inside > /workspace/from-box"));
  EXPECT_EQ(result.out.data, "written outside");
  EXPECT_EQ(result.exit.exit_code, 0) << result.err.data;
  EXPECT_EQ(read_host_file(workspace() / "from-box"), "inside\n");
  await(box().destroy(0ms));
  EXPECT_EQ(read_host_file(workspace() / "from-box"), "inside\n");
}

TEST_P(BackendContract, MountedWorkspaceKeepsItsOwner) {
  if (::geteuid() == 0) ASSERT_EQ(::chown(workspace().c_str(), 4711, 4712), 0);
  const model::LayerReport* layer = box().isolation().find(model::Layer::workspace_owner);
  if (layer == nullptr || layer->state != model::LayerState::in_force) {
    GTEST_SKIP() << "this host cannot keep the owner of a workspace";
  }
  EXPECT_EQ(run(shell("mkdir d && echo x > d/f")).exit.exit_code, 0);
  struct stat expected {};
  ASSERT_EQ(::stat(workspace().c_str(), &expected), 0);
  for (const char* name : {"d", "d/f"}) {
    struct stat made {};
    ASSERT_EQ(::stat((workspace() / name).c_str(), &made), 0) << name;
    EXPECT_EQ(made.st_uid, expected.st_uid) << name;
    EXPECT_EQ(made.st_gid, expected.st_gid) << name;
  }
}

TEST_P(BackendContract, ReadOnlyWorkspaceRefusesWrites) {
  write_host_file(workspace() / "from-host", "readable");
  model::BoxSettings read_only = spec();
  read_only.host_path_mode = model::MountMode::ro;
  box_ = create(read_only);
  EXPECT_EQ(run(payload({"cat", "/workspace/from-host"})).out.data, "readable");
  EXPECT_NE(run(shell("echo x > /workspace/from-host")).exit.exit_code, 0);
  EXPECT_NE(run(shell("echo x > /workspace/new")).exit.exit_code, 0);
  EXPECT_EQ(read_host_file(workspace() / "from-host"), "readable");
  EXPECT_EQ(read_host_file(workspace() / "new"), "(missing)");
}

TEST_P(BackendContract, WorkspaceOfModeNoneIsNotThere) {
  write_host_file(workspace() / "secret", "not for the box");
  model::BoxSettings hidden = spec();
  hidden.host_path_mode = model::MountMode::none;
  box_ = create(hidden);
  const RunResult result = run(payload({"cat", "/workspace/secret"}));
  EXPECT_NE(result.exit.exit_code, 0);
  EXPECT_EQ(result.out.data, "");
}

TEST_P(BackendContract, BoxWithoutAWorkspaceWorks) {
  model::BoxSettings bare = spec();
  bare.host_path.reset();
  box_ = create(bare);
  EXPECT_TRUE(answers(box()));
  EXPECT_EQ(run(shell("echo x > /tmp/f && cat /tmp/f")).out.data, "x\n");
}

TEST_P(BackendContract, ExtraMountsAreWhatTheirModeSays) {
  for (const char* name : {"rw", "ro", "none"}) {
    fs::create_directory(temp_.path() / name);
    write_host_file(temp_.path() / name / "f", name);
  }
  model::BoxSettings extra = spec();
  extra.extra_mounts.push_back({temp_.path() / "rw", "/data/rw", model::MountMode::rw});
  extra.extra_mounts.push_back({temp_.path() / "ro", "/data/ro", model::MountMode::ro});
  extra.extra_mounts.push_back({temp_.path() / "none", "/data/none", model::MountMode::none});
  box_ = create(extra);
  EXPECT_EQ(run(shell("cat /data/rw/f; cat /data/ro/f")).out.data, "rwro");
  EXPECT_EQ(run(shell("echo new > /data/rw/f")).exit.exit_code, 0);
  EXPECT_EQ(read_host_file(temp_.path() / "rw/f"), "new\n");
  EXPECT_NE(run(shell("echo new > /data/ro/f")).exit.exit_code, 0);
  EXPECT_EQ(read_host_file(temp_.path() / "ro/f"), "ro");
  EXPECT_NE(run(payload({"cat", "/data/none/f"})).exit.exit_code, 0);
}

TEST_P(BackendContract, WorkspaceCanBeMountedElsewhere) {
  write_host_file(workspace() / "f", "here");
  model::BoxSettings elsewhere = spec();
  elsewhere.mount_path = "/data/project";
  box_ = create(elsewhere);
  RunRequest request = shell("pwd; cat f; echo x > g");
  request.process.cwd = "/data/project";
  const RunResult result = run(std::move(request));
  EXPECT_EQ(result.out.data, "/data/project\nhere");
  EXPECT_EQ(read_host_file(workspace() / "g"), "x\n");
}

TEST_P(BackendContract, MountOverAMountShowsTheInnerOne) {
  fs::create_directory(temp_.path() / "inner");
  write_host_file(temp_.path() / "inner/f", "inner");
  model::BoxSettings nested = spec();
  nested.extra_mounts.push_back(
      {temp_.path() / "inner", "/workspace/.skills/x", model::MountMode::ro});
  box_ = create(nested);
  EXPECT_EQ(run(payload({"cat", "/workspace/.skills/x/f"})).out.data, "inner");
  EXPECT_EQ(run(shell("echo x > /workspace/f")).exit.exit_code, 0);
  EXPECT_EQ(read_host_file(workspace() / "f"), "x\n");
}

TEST_P(BackendContract, PathsThatNoBoxMaySeeAreRefused) {
  for (const char* path : {"/", "/etc", "/etc/ssl", "/proc", "/sys", "/dev", "/root", "/boot",
                           "/run", "/var/run", "/var", "/tmp/../etc"}) {
    model::BoxSettings as_workspace = spec();
    as_workspace.host_path = path;
    EXPECT_EQ(code_of(backend_->create(as_workspace)), ErrorCode::mount_refused) << path;
    EXPECT_THAT(last_message_, HasSubstr(path));
    model::BoxSettings as_extra = spec();
    as_extra.extra_mounts.push_back({path, "/data", model::MountMode::ro});
    EXPECT_EQ(code_of(backend_->create(as_extra)), ErrorCode::mount_refused) << path;
  }
  EXPECT_TRUE(answers(box()));
}

TEST_P(BackendContract, LinksToPathsThatNoBoxMaySeeAreRefused) {
  fs::create_symlink("/etc", temp_.path() / "innocent");
  fs::create_symlink("/", temp_.path() / "harmless");
  for (const char* name : {"innocent", "harmless", "innocent/ssl", "harmless/etc"}) {
    model::BoxSettings linked = spec();
    linked.host_path = (temp_.path() / name).native();
    EXPECT_EQ(code_of(backend_->create(linked)), ErrorCode::mount_refused) << name;
  }
}

TEST_P(BackendContract, NothingIsMadeBehindALinkToAPathThatNoBoxMaySee) {
  const fs::path target = fs::path("/run") / temp_.path().filename();
  fs::create_symlink("/run", temp_.path() / "innocent");
  model::BoxSettings linked = spec();
  linked.host_path = (temp_.path() / "innocent" / target.filename()).native();
  EXPECT_EQ(code_of(backend_->create(linked)), ErrorCode::mount_refused);
  std::error_code ignored;
  EXPECT_FALSE(fs::remove(target, ignored)) << "a directory was made on the host";
}

TEST_P(BackendContract, LinksInAWorkspaceDoNotLeadOutOfTheBox) {
  const fs::path secret = write_host_file(temp_.path() / "secret", "not for the box");
  fs::create_symlink(secret, workspace() / "absolute");
  fs::create_symlink("../secret", workspace() / "relative");
  for (const char* name : {"absolute", "relative"}) {
    const RunResult result = run(payload({"cat", std::string("/workspace/") + name}));
    EXPECT_NE(result.exit.exit_code, 0) << name;
    EXPECT_EQ(result.out.data, "") << name;
  }
}

TEST_P(BackendContract, MissingWritableWorkspaceIsCreated) {
  model::BoxSettings fresh = spec();
  fresh.host_path = (temp_.path() / "not/yet/there").native();
  box_ = create(fresh);
  EXPECT_EQ(run(shell("echo x > /workspace/f")).exit.exit_code, 0);
  EXPECT_EQ(read_host_file(temp_.path() / "not/yet/there/f"), "x\n");
}

}  // namespace caisson::contract
