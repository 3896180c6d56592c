#include "service/box_configuration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "base/path.h"
#include "base/temporary_directory.h"
#include "model/refusal_for_test.h"

namespace caisson::service {
namespace {

namespace fs = std::filesystem;
using Roots = BoxConfiguration::Roots;
using testing::ElementsAre;
using testing::HasSubstr;

boost::json::object tree(const std::string& text) {
  return model::parse_json(text).as_object();
}

class BoxConfigurationTest : public testing::Test {
 protected:
  model::BoxConfig operators() const {
    model::BoxConfig config;
    config.local.host_root = root();
    config.local.allowed_mount_roots = {root()};
    return config;
  }
  std::string root() const { return fs::canonical(directory_.path()).native(); }
  // The sentence, or "".
  static std::string refusal(BoxConfiguration& configuration, const boost::json::object& local,
                             Roots roots) {
    try {
      configuration.apply({{"local", local}}, {.roots = roots});
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  TemporaryDirectory directory_;
};

TEST_F(BoxConfigurationTest, KeepsWhatAHostDoesNotMention) {
  BoxConfiguration configuration(operators());
  configuration.apply(tree(R"({"limits": {"max_sessions": 7}})"), {.roots = Roots::operators});
  configuration.apply(tree(R"({"limits": {"max_managed_processes": 3}, "unknown": {"a": 1}})"),
                      {.roots = Roots::operators});
  EXPECT_EQ(configuration.config().limits.max_sessions, 7);
  EXPECT_EQ(configuration.config().limits.max_managed_processes, 3);
  EXPECT_EQ(configuration.config().local.host_root, root());
}

TEST_F(BoxConfigurationTest, KeepsAdmissionRequiredUnlessAHostWouldTurnItOff) {
  model::BoxConfig strict = operators();
  strict.admission.policy.required = true;
  BoxConfiguration configuration(strict);
  configuration.apply(tree(R"({"limits": {"max_sessions": 7}})"), {.roots = Roots::operators});
  EXPECT_EQ(configuration.config().admission, strict.admission);
  configuration.apply(tree(R"({"admission": {"required": false}})"), {.roots = Roots::operators});
  EXPECT_TRUE(configuration.config().admission.policy.required);
  EXPECT_NE(configuration.config().admission.configuration_error, "");
}

TEST_F(BoxConfigurationTest, ChangesNothingForAFaultyOne) {
  BoxConfiguration configuration(operators());
  const model::BoxConfig before = configuration.config();
  EXPECT_EQ(model::refusal_of([&] {
              configuration.apply(
                  tree(R"({"backend": "docker", "limits": {"max_sessions": 5001}})"),
                  {.roots = Roots::operators});
            }),
            "box.limits.max_sessions must be between 0 and 5000");
  EXPECT_EQ(configuration.config(), before);
}

TEST_F(BoxConfigurationTest, TakesNoRootsFromAHostThatMayNotNameThem) {
  BoxConfiguration configuration(operators());
  const auto submitted = tree(R"({"local": {"allowed_mount_roots": ["/srv", ")" + root() +
                              R"(/below"]}, "native": {"allow_missing": ["seccomp"]}})");
  configuration.apply(submitted, {.roots = Roots::operators});
  EXPECT_THAT(configuration.mount_roots(), ElementsAre(root()));
  EXPECT_TRUE(configuration.config().native.allow_missing.empty());
  configuration.apply(submitted, {.roots = Roots::any});
  EXPECT_THAT(configuration.mount_roots(), ElementsAre(root(), "/srv"));
}

TEST_F(BoxConfigurationTest, RemembersNoRootsThatAHostMayNotNameForTheNextWhoMay) {
  BoxConfiguration configuration(operators());
  configuration.apply(tree(R"({"local": {"allowed_mount_roots": ["/srv"]}})"),
                      {.roots = Roots::operators});
  configuration.apply(tree(R"({"local": {"image": "x"}, "limits": {"max_sessions": 7}})"),
                      {.roots = Roots::any});
  EXPECT_THAT(configuration.mount_roots(), ElementsAre(root()));
  configuration.apply(tree(R"({"local": {"allowed_mount_roots": ["/srv"]}})"),
                      {.roots = Roots::any});
  configuration.apply(tree(R"({"limits": {"max_sessions": 8}})"), {.roots = Roots::operators});
  EXPECT_THAT(configuration.mount_roots(), ElementsAre(root(), "/srv"));
}

TEST_F(BoxConfigurationTest, MakesTheDefaultWorkspaceBelowARootOnly) {
  BoxConfiguration configuration(operators());
  configuration.apply(tree(R"({"local": {}})"), {.roots = Roots::any});
  EXPECT_TRUE(fs::is_directory(directory_.path() / "default"));
  EXPECT_EQ(refusal(configuration, {{"default_workspace", "/nowhere/at/all"}}, Roots::any),
            "box.local.default_workspace is outside allowed_mount_roots: " + root());
  std::ofstream(directory_.path() / "file") << "x";
  EXPECT_EQ(refusal(configuration, {{"default_workspace", "file"}}, Roots::any),
            "box.local.default_workspace must point to a directory on the Box runtime host");
  EXPECT_EQ(configuration.default_workspace(), root() + "/default");
}

TEST_F(BoxConfigurationTest, JudgesEveryDirectoryThatAHostNamesLikeAMount) {
  const std::string state = root() + "/state";
  BoxConfiguration configuration(operators(), {state});
  fs::create_directory_symlink("/etc", directory_.path() / "link");
  const model::BoxConfig before = configuration.config();
  for (const char* field : {"host_root", "default_workspace", "skills_root"}) {
    for (const std::string& path :
         {std::string("/etc"), std::string("/root/x"), std::string("/"), std::string("/var/lib"),
          root() + "/link", root() + "/link/../root", state, state + "/below",
          root() + "/../../run", std::string("../../../../../../etc"), std::string("a\0b", 3)}) {
      for (const Roots roots : {Roots::operators, Roots::any}) {
        EXPECT_NE(refusal(configuration, {{field, path}}, roots), "") << field << " " << path;
      }
    }
    const std::string elsewhere = refusal(configuration, {{field, "/srv/x"}}, Roots::operators);
    EXPECT_THAT(elsewhere, HasSubstr("is outside allowed_mount_roots: " + root())) << field;
  }
  EXPECT_EQ(configuration.config(), before);
  EXPECT_EQ(configuration.skills_root(), root() + "/skills");
  EXPECT_EQ(configuration.default_workspace(), root() + "/default");
  EXPECT_FALSE(fs::exists(state));
}

TEST_F(BoxConfigurationTest, LeavesTheOperatorsOwnDirectoriesAlone) {
  const TemporaryDirectory elsewhere;
  model::BoxConfig config = operators();
  config.local.skills_root = elsewhere / "skills";
  BoxConfiguration configuration(config);
  const std::string same = R"({"local": {"skills_root": ")" + config.local.skills_root + R"("}})";
  configuration.apply(tree(same), {.roots = Roots::operators});
  EXPECT_EQ(configuration.skills_root(), config.local.skills_root);
  configuration.apply(tree(R"({"local": {"skills_root": "mine"}})"), {.roots = Roots::operators});
  EXPECT_EQ(configuration.skills_root(), root() + "/mine");
  configuration.apply(tree(same), {.roots = Roots::operators});
  EXPECT_EQ(configuration.skills_root(), config.local.skills_root);
}

TEST_F(BoxConfigurationTest, TakesRelativeDirectoriesForThoseOfTheHostThatTheOperatorNames) {
  const std::string box = root() + "/data/box";
  fs::create_directories(box);
  const auto sent = tree(R"({"local": {"host_root": "./data/box", "default_workspace": "",
                             "allowed_mount_roots": ["./data/box", "/tmp"]}})");
  // Either the directory in which the host runs or what it calls its root.
  for (const std::string& named : {root(), box, box + "/"}) {
    model::BoxConfig config;
    config.local.host_root = named;
    config.local.allowed_mount_roots = {named};
    BoxConfiguration configuration(config);
    configuration.apply(sent, {.roots = Roots::operators});
    EXPECT_EQ(configuration.default_workspace(), box + "/default") << named;
    EXPECT_EQ(configuration.skills_root(), box + "/skills") << named;
    EXPECT_THAT(configuration.mount_roots(), ElementsAre(normalise_path(named)));
    configuration.apply(sent, {.roots = Roots::operators});  // as after a reconnection
    EXPECT_EQ(configuration.default_workspace(), box + "/default") << named;
  }
}

TEST_F(BoxConfigurationTest, SaysWhatToWriteWhereARelativeDirectoryIsNotKnown) {
  model::BoxConfig config;  // of an operator who says nothing
  config.local.allowed_mount_roots = {*config.local.host_root};
  BoxConfiguration configuration(config);
  const model::BoxConfig before = configuration.config();
  for (const Roots roots : {Roots::operators, Roots::any}) {
    const std::string why = refusal(configuration, {{"host_root", "./data/box"}}, roots);
    EXPECT_THAT(why, HasSubstr("box.local.host_root: \"./data/box\" is relative"));
    EXPECT_THAT(why, HasSubstr("box: {local: {host_root: "));
    EXPECT_THAT(why, HasSubstr("/etc/caisson/caisson.yaml"));
  }
  EXPECT_EQ(configuration.config(), before);
  const std::string elsewhere = root() + "/elsewhere";
  configuration.apply(
      {{"local", {{"host_root", elsewhere}, {"allowed_mount_roots", {"rel", elsewhere}}}}},
      {.roots = Roots::any});
  EXPECT_THAT(configuration.mount_roots(), ElementsAre(elsewhere));
}

TEST_F(BoxConfigurationTest, TakesRelativeDirectoriesOfWhoStartedUsForOurOwn) {
  const fs::path before = fs::current_path();
  fs::current_path(root());
  model::BoxConfig config;
  config.local.allowed_mount_roots = {*config.local.host_root};
  BoxConfiguration configuration(config);
  configuration.apply(tree(R"({"local": {"host_root": "./data/box"}})"),
                      {.roots = Roots::any, .is_parent = true});
  fs::current_path(before);
  EXPECT_EQ(configuration.default_workspace(), root() + "/data/box/default");
  EXPECT_TRUE(fs::is_directory(root() + "/data/box/default"));
}

TEST_F(BoxConfigurationTest, AllowsWhatIsBelowTheHostRootAloneWhereNothingElseIsSaid) {
  const model::BoxConfig config =
      model::read_box_config(boost::json::object{{"local", {{"host_root", root()}}}}).config;
  BoxConfiguration configuration(config);
  EXPECT_THAT(configuration.mount_roots(), ElementsAre(root()));
  BoxConfiguration silent(model::read_box_config(boost::json::object()).config);
  silent.apply({{"local", {{"host_root", root()}}}}, {.roots = Roots::any});
  EXPECT_THAT(silent.mount_roots(), ElementsAre(root()));
}

TEST_F(BoxConfigurationTest, FindsDirectoriesBelowTheRoot) {
  BoxConfiguration configuration(operators());
  EXPECT_EQ(configuration.default_workspace(), root() + "/default");
  EXPECT_EQ(configuration.tenant_workspace("ws-1"), root() + "/default/tenants/ws-1");
  EXPECT_EQ(configuration.skills_root(), root() + "/skills");
  configuration.apply(tree(R"({"local": {"skills_root": "/srv/skills"}})"), {.roots = Roots::any});
  EXPECT_EQ(configuration.skills_root(), "/srv/skills");
}

TEST_F(BoxConfigurationTest, KeepsToWhatItJudgedWhenALinkComesLater) {
  BoxConfiguration configuration(operators());
  configuration.apply(tree(R"({"local": {"skills_root": "deep/skills"}})"),
                      {.roots = Roots::operators});
  fs::create_directory_symlink("/etc", directory_.path() / "deep");
  EXPECT_EQ(configuration.skills_root(), root() + "/deep/skills");
}

TEST_F(BoxConfigurationTest, SaysWhyABackendIsNotThere) {
  BoxConfiguration configuration(operators());
  for (const char* fine : {"", "local", "native"}) {
    configuration.apply(tree(std::string(R"({"backend": ")") + fine + "\"}"),
                        {.roots = Roots::operators});
    EXPECT_EQ(configuration.backend_refusal("native"), "");
  }
  configuration.apply(tree(R"({"backend": "docker"})"), {.roots = Roots::operators});
  EXPECT_THAT(configuration.backend_refusal("native"), HasSubstr("box.backend is \"docker\""));
  configuration.apply(tree(R"({"backend": "nsjail"})"), {.roots = Roots::operators});
  EXPECT_THAT(configuration.backend_refusal("native"), HasSubstr("answer_as"));
  EXPECT_EQ(configuration.backend_refusal("nsjail"), "");
  configuration.apply(tree(R"({"backend": "local"})"), {.roots = Roots::operators}, true);
  EXPECT_EQ(configuration.config().backend, "nsjail");
}

}  // namespace
}  // namespace caisson::service
