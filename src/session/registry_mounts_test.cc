// What a registry does when a session is asked for with other mounts than it has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "backend/artifact_for_test.h"
#include "base/error.h"
#include "base/temporary_directory.h"
#include "session/registry.h"
#include "session/scene_for_test.h"

namespace caisson::session {
namespace {

using model::Mounting;
using model::MountMode;
using model::MountSpec;
using testing::ElementsAre;
using testing::IsEmpty;

class RegistryMounts : public SessionScene {
 protected:
  void SetUp() override {
    registry_ = std::make_unique<Registry>(io_.get_executor(), backend_, nullptr, plain());
    await(registry_->start());
  }
  void TearDown() override {
    await(registry_->stop());
    await(backend_.stop());
  }

  MountSpec plain_mount(const std::string& name) {
    std::filesystem::create_directories(directory_.path() / name);
    replace_file(directory_.path() / name / "f", name);
    return {directory_.path() / name, "/workspace/" + name, MountMode::ro};
  }
  MountSpec artifact(const std::string& content) {
    return backend::write_artifact(directory_.path(), content, content);
  }

  ExecRequest request(std::string cmd, std::vector<MountSpec> mounts, Mounting mounting) {
    ExecRequest request = command("a", std::move(cmd));
    request.asked.box.extra_mounts = std::move(mounts);
    request.asked.mounting = mounting;
    return request;
  }
  std::string exec(std::string cmd, std::vector<MountSpec> mounts,
                   Mounting mounting = Mounting::fixed) {
    return await(registry_->exec(request(std::move(cmd), std::move(mounts), mounting))).out;
  }
  std::vector<MountSpec> shown() const { return registry_->get("a").extra_mounts; }
  std::string box() const { return registry_->get("a").info.backend_session_id; }

  TemporaryDirectory directory_;
  std::unique_ptr<Registry> registry_;
};

TEST_F(RegistryMounts, ArtifactsComeAndGoInTheSameBox) {
  const MountSpec one = artifact("one");
  const MountSpec two = artifact("two");
  EXPECT_EQ(exec("echo kept > /tmp/kept; cat " + one.mount_path + "/SKILL.md", {one}), "one");
  const std::string before = box();
  EXPECT_EQ(
      exec("cat " + one.mount_path + "/SKILL.md " + two.mount_path + "/SKILL.md; cat /tmp/kept",
           {two, one}),
      "onetwokept");
  EXPECT_THAT(shown(), ElementsAre(one, two));
  EXPECT_EQ(exec("cat " + one.mount_path + "/SKILL.md", {two}), "");
  EXPECT_THAT(shown(), ElementsAre(two));
  EXPECT_EQ(exec("cat /tmp/kept", {}), "kept");
  EXPECT_THAT(shown(), IsEmpty());
  EXPECT_EQ(box(), before);
}

TEST_F(RegistryMounts, WhatOthersMayBeUsingStays) {
  const MountSpec one = artifact("one");
  const MountSpec two = artifact("two");
  exec("true", {one});
  {
    const Session::Use busy = registry_->use("a");
    exec("true", {two});
    EXPECT_THAT(shown(), ElementsAre(one, two));
  }
  exec("true", {two});
  EXPECT_THAT(shown(), ElementsAre(two));
}

TEST_F(RegistryMounts, AnArtifactThatIsRefusedChangesNothing) {
  const MountSpec one = artifact("one");
  exec("true", {one});
  MountSpec wrong = artifact("two");
  replace_file(directory_.path() / "two/SKILL.md", "something else");
  const auto outcome = end(begin(registry_->exec(request("true", {one, wrong}, Mounting::fixed))));
  EXPECT_EQ(outcome.code, ErrorCode::artifact_refused);
  EXPECT_THAT(shown(), ElementsAre(one));
  EXPECT_EQ(exec("cat " + one.mount_path + "/SKILL.md", {one}), "one");
}

TEST_F(RegistryMounts, OtherPlainMountsAreAConflictThatKeepsTheSession) {
  const MountSpec one = plain_mount("one");
  exec("echo kept > /tmp/kept", {one});
  const auto outcome =
      end(begin(registry_->exec(request("true", {plain_mount("two")}, Mounting::fixed))));
  EXPECT_EQ(outcome.code, ErrorCode::session_conflict);
  EXPECT_TRUE(outcome.message.starts_with("session a already exists with extra_mounts="))
      << outcome.message;
  EXPECT_EQ(exec("cat /tmp/kept; cat /workspace/one/f", {one}), "kept\none");
  EXPECT_EQ(exec("cat /tmp/kept", {one, one, {"/srv", "/workspace/x", MountMode::none}}), "kept");
}

TEST_F(RegistryMounts, OfHostsThatNameASkillAreChangedInTheSameBox) {
  const MountSpec one = plain_mount("one");
  const MountSpec two = plain_mount("two");
  exec("echo kept > /tmp/kept", {one}, Mounting::follows);
  const std::string before = box();
  EXPECT_EQ(
      exec("cat /tmp/kept; cat /workspace/one/f; cat /workspace/two/f", {two}, Mounting::follows),
      "kept\ntwo");
  MountSpec changed = two;
  changed.host_path = one.host_path;
  EXPECT_EQ(exec("cat /workspace/two/f", {changed}, Mounting::follows), "one");
  EXPECT_EQ(box(), before);
}

TEST_F(RegistryMounts, AreThoseOfTheSessionWhereNothingIsSaid) {
  const MountSpec one = plain_mount("one");
  const MountSpec skill = artifact("skill");
  exec("true", {one, skill});
  EXPECT_EQ(
      exec("cat /workspace/one/f; cat " + skill.mount_path + "/SKILL.md", {}, Mounting::unsaid),
      "oneskill");
}

}  // namespace
}  // namespace caisson::session
