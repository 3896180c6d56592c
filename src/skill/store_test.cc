#include "skill/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/time.h>

#include "base/error.h"
#include "skill/limits.h"
#include "skill/scene_for_test.h"

namespace caisson::skill {
namespace {

using testing::ElementsAre;
using testing::StartsWith;
using Names = std::set<std::string>;

void set_age(const Scene& scene, const std::string& path, std::int64_t seconds) {
  const timespec times[2] = {{.tv_sec = seconds}, {.tv_sec = seconds, .tv_nsec = 123456789}};
  check_syscall(path, ::utimensat(AT_FDCWD, (scene.path() / path).c_str(), times, 0));
}

TEST(Store, ListsTheNewestFirstAndSkipsWhatIsUnreadable) {
  const Scene scene;
  scene.put("skills/old/SKILL.md", entry_text("old"));
  scene.put("skills/a/b/c/skill.md", "No front matter");
  scene.put("skills/bad/SKILL.md", "---\nname: [\n---\n");
  scene.put("skills/bytes/SKILL.md", "\xFF");
  scene.put("skills/wrong name/SKILL.md", "x");
  scene.put("skills/large/SKILL.md", std::string(kMaxTextBytes + 1, 'x'));
  scene.put("skills/1/2/3/4/5/six/SKILL.md", "x");
  scene.put("skills/1/2/3/4/5/6/seven/SKILL.md", "x");
  scene.put("outside/SKILL.md", entry_text("outside"));
  scene.link("../outside", "skills/link");
  scene.link("../../outside/SKILL.md", "skills/thief/SKILL.md");
  scene.link("text.md", "skills/indirect/SKILL.md");
  scene.put("skills/indirect/text.md", entry_text("indirect"));
  scene.put("skills/tenants/ws-1/t/SKILL.md", entry_text("tenant"));
  set_age(scene, "skills/old/SKILL.md", 1'700'000'000);
  set_age(scene, "skills/a/b/c/skill.md", 1'700'000'300);
  set_age(scene, "skills/1/2/3/4/5/six/SKILL.md", 1'700'000'200);
  set_age(scene, "skills/indirect/text.md", 1'700'000'100);
  EXPECT_THAT(names_of(scene.store().list()), ElementsAre("c", "six", "indirect", "old"));
  EXPECT_THAT(names_of(scene.scoped().list()), ElementsAre("tenant"));
  EXPECT_THAT(names_of(Store::scoped(scene.root(), "ws-2").list()), ElementsAre());
  EXPECT_TRUE(scene.exists("skills/tenants/ws-2"));
}

TEST(Store, ShowsASkillAsLangBotReadsIt) {
  const Scene scene;
  scene.put("skills/x/SKILL.md", entry_text("demo", "display_name: A demo\ndescription: Shows\n"));
  scene.put("skills/x/pyproject.toml", "");
  set_age(scene, "skills/x/SKILL.md", 1'700'000'000);
  const auto skill = scene.store().get("demo");
  ASSERT_TRUE(skill);
  boost::json::object json = to_json(*skill);
  EXPECT_THAT(std::string(json.at("created_at").as_string()), testing::EndsWith("+00:00"));
  json.erase("created_at");
  EXPECT_EQ(boost::json::value(json),
            (boost::json::value{{"name", "demo"},
                                {"display_name", "A demo"},
                                {"description", "Shows"},
                                {"instructions", "Do it.\n"},
                                {"package_root", scene.root() + "/x"},
                                {"entry_file", "SKILL.md"},
                                {"python_project", true},
                                {"updated_at", "2023-11-14T22:13:20.123456+00:00"}}));
  EXPECT_EQ(scene.store().get("x"), std::nullopt);
  EXPECT_EQ(scene.store().find_package("demo"), scene.root() + "/x");
  EXPECT_EQ(scene.store().find_package("none"), std::nullopt);
}

TEST(Store, KnowsAPythonProjectByItsFiles) {
  const Scene scene;
  for (const char* file : {"requirements.txt", "pyproject.toml", "setup.py", "setup.cfg"}) {
    scene.put(std::string("skills/p/") + file, "");
    scene.put("skills/p/SKILL.md", "x");
    EXPECT_TRUE(scene.store().get("p")->python_project) << file;
    std::filesystem::remove_all(scene.root() + "/p");
  }
  scene.put("skills/p/SKILL.md", "x");
  EXPECT_FALSE(scene.store().get("p")->python_project);
  scene.put("skills/p/.venv/bin/python", "x");
  EXPECT_TRUE(scene.store().get("p")->python_project);
}

TEST(Store, StopsAtTheLimitsOfAListing) {
  const Scene many;
  const MemoryFileSystem many_memory(many.root());
  for (std::size_t i = 0; i <= kMaxPackages; ++i) {
    many.put("skills/s" + std::to_string(i) + "/SKILL.md", "x");
  }
  EXPECT_EQ(refusal_of([&] { many.store().list(); }),
            "Skill discovery exceeded the configured package limit");
  const Scene wide;
  const MemoryFileSystem wide_memory(wide.root());
  for (std::size_t i = 0; i <= kMaxScannedEntries; ++i) {
    std::filesystem::create_directory(wide.root() + "/" + std::to_string(i));
  }
  EXPECT_EQ(refusal_of([&] { wide.store().list(); }),
            "Skill discovery exceeded the configured entry limit");
  const Scene large;
  const MemoryFileSystem large_memory(large.root());
  for (int i = 0; i < 17; ++i) {
    large.put("skills/s" + std::to_string(i) + "/SKILL.md", std::string(1'000'000, 'x'));
  }
  EXPECT_EQ(refusal_of([&] { large.store().list(); }),
            "Skill listing exceeds the configured text limit");
}

TEST(Store, RefusesANamespaceThatIsNoName) {
  for (const char* wrong : {"", " ", ".", "..", "a/b", "a\\b"}) {
    EXPECT_EQ(refusal_of([&] { Store::scoped("/tmp", wrong); }), "Invalid Box skill namespace");
  }
}

TEST(Store, UndoesWhatAKilledDaemonLeft) {
  const Scene scene;
  scene.put("skills/kept/SKILL.md", entry_text("kept"));
  scene.put("skills/.caisson-staging-0123/package-0/SKILL.md", entry_text("half"));
  scene.put("skills/.caisson-staging-4567/plan", std::string("one\0two\0", 8));
  scene.put("skills/.caisson-staging-4567/package-1/SKILL.md", entry_text("two"));
  scene.put("skills/one/SKILL.md", entry_text("one"));
  EXPECT_THAT(names_of(scene.store().list()), ElementsAre("kept"));
  EXPECT_EQ(scene.tree(), (Names{"kept", "kept/SKILL.md"}));
}

TEST(StoreCreate, WritesANewPackage) {
  const Scene scene;
  const Skill skill = scene.scoped().create(object(
      R"({"name": " demo ", "display_name": "", "description": "What: it does", "instructions": "Go\n",
          "package_root": "", "other": 1})"));
  EXPECT_EQ(skill.name, "demo");
  EXPECT_EQ(skill.display_name, "demo");
  EXPECT_EQ(skill.package_root, scene.root() + "/tenants/ws-1/demo");
  EXPECT_EQ(scene.content("skills/tenants/ws-1/demo/SKILL.md"),
            "---\nname: demo\ndescription: 'What: it does'\n---\n\nGo\n");
  EXPECT_EQ(scene.scoped().get("demo"), skill);
  EXPECT_EQ(scene.tree("skills/tenants/ws-1"), (Names{"demo", "demo/SKILL.md"}));
}

TEST(StoreCreate, AdoptsNoDirectoryThatItDidNotMake) {
  const Scene scene;
  scene.put("skills/demo/secret.txt", "kept");
  EXPECT_EQ(refusal_of([&] { scene.store().create(object(R"({"name": "demo"})")); }),
            "Skill directory already exists: " + scene.root() + "/demo");
  std::filesystem::create_directory(scene.root() + "/empty");
  EXPECT_EQ(refusal_of([&] { scene.store().create(object(R"({"name": "empty"})")); }),
            "Skill directory already exists: " + scene.root() + "/empty");
  EXPECT_EQ(scene.tree(), (Names{"demo", "demo/secret.txt", "empty"}));
}

TEST(StoreCreate, DoesNotFollowALinkThatTookThePlaceOfItsRoot) {
  const Scene scene;
  scene.put("outside/other/SKILL.md", entry_text("other"));
  scene.link("outside", "skills");
  EXPECT_THROW(scene.store().list(), SystemError);
  EXPECT_THROW(scene.store().create(object(R"({"name": "demo"})")), SystemError);
  EXPECT_EQ(scene.tree("outside"), (Names{"other", "other/SKILL.md"}));
}

TEST(StoreCreate, ImportsNothingThatMayNotBeMounted) {
  const Scene scene;
  scene.put("workspace/state/SKILL.md", entry_text("state"));
  const std::string path = scene.workspace() + "/state";
  const Store store(scene.root(),
                    {.roots = {scene.workspace()},
                     .rules = {.protected_paths = {scene.workspace() + "/state/inner"}}});
  const std::string why =
      " " + path + " cannot be read: it contains " + path + "/inner, which is never shown to a box";
  EXPECT_EQ(refusal_of([&] { store.scan_directory(path); }), "scan path" + why);
  EXPECT_EQ(refusal_of([&] {
              store.create(object(R"({"name": "n", "package_root": ")" + path + R"("})"));
            }),
            "package_root" + why);
}

TEST(StoreCreate, SaysWhyNot) {
  const Scene scene;
  scene.put("skills/demo/SKILL.md", entry_text("demo"));
  scene.put("skills/dir/SKILL.md", entry_text("other"));
  scene.put("skills/tenants/ws-1/x/SKILL.md", entry_text("x"));
  scene.put("skills/empty/file", "");
  scene.put("outside/SKILL.md", entry_text("outside"));
  scene.put("workspace/nothing/file", "");
  scene.put("workspace/skill/SKILL.md", entry_text("s"));
  scene.link("../outside", "workspace/link");
  scene.link("/etc", "skills/etc");
  const auto refusal = [&](std::string json) {
    const std::size_t at = json.find('@');
    if (at != std::string::npos) json.replace(at, 1, scene.path().native());
    return refusal_of([&] { scene.store().create(object(json)); });
  };
  const std::string at = scene.path().native();
  const std::string outside = "package_root must stay within the Workspace skill root";
  const std::pair<std::string, std::string> rows[] = {
      {R"({})", "Skill name is required"},
      {R"({"name": null})", "Skill name is required"},
      {R"({"name": "a b"})",
       "Skill name can only contain letters, numbers, hyphens and underscores"},
      {R"({"name": ["a"]})", "name: must be a string"},
      {R"({"name": "demo"})", R"(Skill with name "demo" already exists)"},
      {R"({"name": "dir"})", "Skill directory already exists: " + at + "/skills/dir"},
      {R"({"name": "tenants"})", "Skill directory already exists: " + at + "/skills/tenants"},
      {R"({"name": "n", "package_root": "@/skills/none"})",
       "Directory does not exist: " + at + "/skills/none"},
      {R"({"name": "n", "package_root": "@/skills/empty"})",
       "No SKILL.md found in " + at + "/skills/empty"},
      {R"({"name": "n", "package_root": "@/skills/tenants/ws-1/x"})", outside},
      {R"({"name": "n", "package_root": "@/skills"})", outside},
      {R"({"name": "n", "package_root": "@/skills/etc"})", outside},
      {R"({"name": "n", "package_root": "@/skills/../outside"})", outside},
      {R"({"name": "n", "package_root": "@/outside"})", outside},
      {R"({"name": "n", "package_root": "@/workspace/link"})", outside},
      {R"({"name": "n", "package_root": "/"})", outside},
      {R"({"name": "n", "package_root": "@/workspace/none"})",
       "Directory does not exist: " + at + "/workspace/none"},
      {R"({"name": "n", "package_root": "@/workspace/nothing"})",
       "No SKILL.md found in " + at + "/workspace/nothing"},
      {R"({"name": "dir", "package_root": "@/workspace/skill"})",
       "Skill directory already exists: " + at + "/skills/dir"},
  };
  const Names before = scene.tree();
  for (const auto& [json, sentence] : rows) EXPECT_EQ(refusal(json), sentence) << json;
  EXPECT_EQ(scene.tree(), before);
  EXPECT_EQ(refusal(R"({"name": "n", "instructions": ")" + std::string(kMaxTextBytes, 'x') + "\"}"),
            "Skill entry file SKILL.md exceeds the 1048576-byte limit");
  EXPECT_EQ(scene.tree(), before);
}

TEST(StoreCreate, TakesOverAPackageInTheStore) {
  const Scene scene;
  scene.put("skills/group/one/SKILL.md",
            entry_text("was", "display_name: Shown\ndescription: Described\n"));
  const Skill skill = scene.store().create(
      object(R"({"name": "is", "display_name": " ", "description": "New", "package_root": ")" +
             scene.root() + R"(/group/./one/"})"));
  EXPECT_EQ(skill.package_root, scene.root() + "/group/one");
  EXPECT_EQ(scene.content("skills/group/one/SKILL.md"),
            "---\nname: is\ndisplay_name: Shown\ndescription: New\n---\n\nDo it.\n");
  EXPECT_THAT(names_of(scene.store().list()), ElementsAre("is"));
  scene.put("skills/group/one/inner/SKILL.md", entry_text("inner"));
  EXPECT_THAT(refusal_of([&] {
                scene.store().create(object(R"({"name": "in", "package_root": ")" + scene.root() +
                                            R"(/group/one/inner"})"));
              }),
              StartsWith("Failed to create skill \"in\""));
}

TEST(StoreCreate, CopiesAPackageFromAnImportRoot) {
  const Scene scene;
  scene.put("workspace/made/SKILL.md", entry_text("made", "description: Described\n"));
  scene.put("workspace/made/bin/run.sh", "#!/bin/sh\n");
  std::filesystem::permissions(scene.workspace() + "/made/bin/run.sh",
                               std::filesystem::perms(04711));
  const std::string path = scene.workspace() + "/made";
  const Skill scanned = scene.scoped().scan_directory(scene.workspace());
  EXPECT_EQ(scanned.package_root, path);
  const Skill skill = scene.scoped().create(
      object(R"({"name": "mine", "package_root": ")" + scanned.package_root + R"("})"));
  EXPECT_EQ(skill.package_root, scene.root() + "/tenants/ws-1/mine");
  EXPECT_EQ(skill.description, "Described");
  EXPECT_EQ(scene.tree("skills/tenants/ws-1"),
            (Names{"mine", "mine/SKILL.md", "mine/bin", "mine/bin/run.sh"}));
  struct stat info {};
  ASSERT_EQ(::stat((skill.package_root + "/bin/run.sh").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777u, 0755u);
  EXPECT_EQ(scene.content("workspace/made/SKILL.md"),
            entry_text("made", "description: Described\n"));
  EXPECT_EQ(refusal_of([&] {
              Store::scoped(scene.root(), "ws-1")
                  .create(object(R"({"name": "n", "package_root": ")" + path + R"("})"));
            }),
            "package_root must stay within the Workspace skill root");
}

TEST(StoreCreate, CopiesNothingThatAnArchiveCouldNotHold) {
  const Scene scene;
  scene.put("outside/secret", "s");
  scene.put("workspace/p/SKILL.md", "x");
  const auto refusal = [&] {
    return refusal_of([&] {
      scene.store().create(
          object(R"({"name": "n", "package_root": ")" + scene.workspace() + R"(/p"})"));
    });
  };
  const auto check = [&](const std::string& sentence) {
    EXPECT_EQ(refusal(), sentence);
    EXPECT_EQ(scene.tree(), Names{});
  };
  scene.link("../../outside/secret", "workspace/p/d/link");
  check("Skill package contains a symbolic link: d/link");
  std::filesystem::remove_all(scene.workspace() + "/p/d");
  ASSERT_EQ(::mkfifo((scene.workspace() + "/p/fifo").c_str(), 0600), 0);
  check("Skill package contains a non-regular entry: fifo");
  std::filesystem::remove(scene.workspace() + "/p/fifo");
  scene.put("workspace/p/large", "");
  std::filesystem::resize_file(scene.workspace() + "/p/large", kMaxFileBytes + 1);
  check("Skill package file exceeds the size limit: large");
  for (int i = 0; i < 5; ++i) {
    scene.put("workspace/p/large", "");
    const std::string name = "workspace/p/l" + std::to_string(i);
    scene.put(name, "");
    std::filesystem::resize_file(scene.path() / name, kMaxFileBytes);
  }
  check("Skill package exceeds the total size limit");
  for (int i = 0; i < 5; ++i) scene.put("workspace/p/l" + std::to_string(i), "");
  std::string deep = "workspace/p";
  for (std::size_t i = 0; i <= kMaxDepth; ++i) deep += "/d";
  scene.put(deep + "/x", "");
  EXPECT_THAT(refusal(), StartsWith("Skill package contains a directory that is too deep: d/d"));
  std::filesystem::remove_all(scene.workspace() + "/p/d");
  for (std::size_t i = 0; i < kMaxEntries; ++i) {
    scene.put("workspace/p/f" + std::to_string(i), "");
  }
  check("Skill package contains too many entries (maximum 512)");
}

TEST(StoreUpdate, ChangesOnlyWhatIsGiven) {
  const Scene scene;
  scene.put("skills/x/SKILL.md", entry_text("demo", "display_name: Shown\ndescription: D\n"));
  const Skill first = scene.store().update("demo", object(R"({"description": "New"})"));
  EXPECT_EQ(first.display_name, "Shown");
  EXPECT_EQ(first.description, "New");
  EXPECT_EQ(first.instructions, "Do it.\n");
  const Skill second = scene.store().update(
      "demo", object(R"({"name": "demo", "display_name": "", "description": null,
                         "instructions": "Now\n", "package_root": ")" +
                     scene.root() + R"(/x/"})"));
  EXPECT_EQ(second.display_name, "demo");
  EXPECT_EQ(scene.content("skills/x/SKILL.md"), "---\nname: demo\n---\n\nNow\n");
  EXPECT_EQ(scene.tree(), (Names{"x", "x/SKILL.md"}));
}

TEST(StoreUpdate, SaysWhyNot) {
  const Scene scene;
  scene.put("skills/x/SKILL.md", entry_text("demo"));
  const auto refusal = [&](const char* name, const char* json) {
    return refusal_of([&] { scene.store().update(name, object(json)); });
  };
  EXPECT_EQ(refusal("none", "{}"), "Skill \"none\" not found");
  EXPECT_EQ(refusal("demo", R"({"name": "other"})"), "Renaming skills is not supported");
  EXPECT_EQ(refusal("demo", R"({"package_root": "/elsewhere"})"),
            "Updating package_root is not supported; recreate the skill to import a different "
            "package");
}

TEST(StoreRemove, RemovesTheTopDirectoryOfAPackageThatIsAlone) {
  const Scene scene;
  scene.put("skills/top/docs/readme", "x");
  scene.put("skills/top/a/one/SKILL.md", entry_text("one"));
  scene.put("skills/other/SKILL.md", entry_text("other"));
  scene.store().remove("one");
  EXPECT_EQ(scene.tree(), (Names{"other", "other/SKILL.md"}));
  scene.store().remove("other");
  EXPECT_EQ(scene.tree(), Names{});
  EXPECT_EQ(refusal_of([&] { scene.store().remove("other"); }), "Skill \"other\" not found");
}

TEST(StoreRemove, LeavesTheOtherPackagesOfADirectory) {
  const Scene scene;
  scene.put("skills/top/one/SKILL.md", entry_text("one"));
  scene.put("skills/top/one/inner/file", "x");
  scene.put("skills/top/two/SKILL.md", entry_text("two"));
  scene.put("skills/top/readme", "x");
  scene.store().remove("one");
  EXPECT_EQ(scene.tree(), (Names{"top", "top/readme", "top/two", "top/two/SKILL.md"}));
  scene.store().remove("two");
  EXPECT_EQ(scene.tree(), Names{});
}

TEST(StoreRemove, DoesNotRemoveTheStoreItself) {
  const Scene scene;
  scene.put("skills/SKILL.md", entry_text("root"));
  EXPECT_EQ(refusal_of([&] { scene.store().remove("root"); }),
            "Only managed skills under the Box skills root can be deleted");
  EXPECT_TRUE(scene.exists("skills/SKILL.md"));
}

TEST(StoreRemove, DoesNotFollowLinks) {
  const Scene scene;
  scene.put("outside/file", "kept");
  scene.put("skills/x/SKILL.md", entry_text("x"));
  scene.link("../../outside", "skills/x/link");
  scene.store().remove("x");
  EXPECT_EQ(scene.tree(), Names{});
  EXPECT_TRUE(scene.exists("outside/file"));
}

TEST(StoreScan, FindsTheOnePackageInADirectory) {
  const Scene scene;
  scene.put("skills/top/a/one/skill.md", entry_text("one"));
  scene.put("skills/top/a/b/c/three/SKILL.md", entry_text("three"));
  const Skill skill = scene.store().scan_directory(scene.root() + "/top");
  EXPECT_EQ(skill.name, "one");
  EXPECT_EQ(skill.entry_file, "skill.md");
  EXPECT_EQ(skill.package_root, scene.root() + "/top/a/one");
}

TEST(StoreScan, SaysWhyNot) {
  const Scene scene;
  scene.put("skills/top/one/SKILL.md", entry_text("one"));
  scene.put("skills/top/two/SKILL.md", entry_text("two"));
  scene.put("skills/empty/file", "");
  scene.put("skills/broken/SKILL.md", "---\nname: [\n---\n");
  const auto refusal = [&](const Store& store, const std::string& path) {
    return refusal_of([&] { store.scan_directory(path); });
  };
  const std::string root = scene.root();
  const std::string outside = "scan path must stay within the Workspace skill root";
  EXPECT_EQ(refusal(scene.store(), root + "/none"), "Directory does not exist: " + root + "/none");
  EXPECT_EQ(refusal(scene.store(), root + "/empty"),
            "No SKILL.md found in " + root + "/empty or its subdirectories (max depth: 2)");
  EXPECT_EQ(refusal(scene.store(), root + "/top"),
            "Multiple skill directories found in " + root +
                "/top. Please choose a more specific path: " + root + "/top/one, " + root +
                "/top/two");
  EXPECT_THAT(refusal(scene.store(), root + "/broken"), StartsWith("SKILL.md:3:"));
  EXPECT_EQ(refusal(scene.scoped(), root + "/top"), outside);
  EXPECT_EQ(refusal(scene.scoped(), ""), outside);
  EXPECT_EQ(refusal(scene.scoped(), std::string("/a\0b", 4)), outside);
  EXPECT_EQ(refusal(scene.store(), root + "/tenants/ws-1"), outside);
}

}  // namespace
}  // namespace caisson::skill
