#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/error.h"
#include "skill/limits.h"
#include "skill/scene_for_test.h"
#include "skill/zip_for_test.h"

namespace caisson::skill {
namespace {

using testing::ElementsAre;
using testing::StartsWith;
using Names = std::set<std::string>;

std::string two_skills() {
  return real_zip({{"repo/", ""},
                   {"repo/README.md", "read"},
                   {"repo/skills/one/SKILL.md", entry_text("one")},
                   {"repo/skills/one/run.sh", "#!/bin/sh\n"},
                   {"repo/skills/two/skill.md", entry_text("two")},
                   {"repo/skills/two/setup.py", ""},
                   {"repo/too/deep/down/SKILL.md", entry_text("deep")}});
}

std::vector<std::string> source_paths(const std::vector<Skill>& skills) {
  std::vector<std::string> paths;
  paths.reserve(skills.size());
  for (const Skill& skill : skills) paths.push_back(*skill.source_path);
  return paths;
}

TEST(PreviewZip, ShowsWhatWouldBeInstalledAndWritesNothing) {
  const Scene scene;
  const std::vector<Skill> skills =
      scene.store().preview_zip(two_skills(), {.file_name = "My Demo.zip"});
  EXPECT_THAT(names_of(skills), ElementsAre("one", "two"));
  EXPECT_THAT(source_paths(skills), ElementsAre("skills/one", "skills/two"));
  EXPECT_EQ(skills[0].package_root, scene.root() + "/My-Demo-one-upload");
  EXPECT_EQ(skills[0].entry_file, "SKILL.md");
  EXPECT_FALSE(skills[0].python_project);
  EXPECT_EQ(skills[1].entry_file, "skill.md");
  EXPECT_TRUE(skills[1].python_project);
  EXPECT_EQ(to_json(skills[0]).at("source_path"), "skills/one");
  EXPECT_FALSE(scene.exists("skills"));
}

TEST(PreviewZip, NamesTheDirectoryAfterTheFile) {
  const Scene scene;
  const auto root_of = [&](const UploadOptions& options, const Files& files) {
    return scene.store()
        .preview_zip(real_zip(files), options)
        .front()
        .package_root.substr(scene.root().size() + 1);
  };
  const Files at_root{{"SKILL.md", "x"}, {"other", "y"}};
  const Files below{{"a/demo/SKILL.md", "x"}, {"b", "y"}};
  EXPECT_EQ(root_of({}, at_root), "skill-upload");
  EXPECT_EQ(root_of({.target_suffix = ""}, at_root), "skill");
  EXPECT_EQ(root_of({.target_suffix = "../../etc"}, at_root), "skill-etc");
  EXPECT_EQ(root_of({.file_name = "", .target_suffix = "x"}, at_root), "uploaded-skill-x");
  EXPECT_EQ(root_of({.file_name = "my.zip"}, below), "my-demo-upload");
  EXPECT_EQ(root_of({.file_name = "demo.zip"}, below), "demo-upload");
  EXPECT_EQ(scene.store().preview_zip(real_zip(at_root), {}).front().name, "skill-upload")
      << "without a name of its own";
}

TEST(PreviewZip, LooksBelowASubdirectory) {
  const Scene scene;
  const auto preview = [&](const std::string& subdirectory) {
    return source_paths(scene.store().preview_zip(two_skills(), {.source_subdir = subdirectory}));
  };
  const auto refusal = [&](const std::string& subdirectory) {
    return refusal_of([&] { preview(subdirectory); });
  };
  EXPECT_THAT(preview("/skills/one/"), ElementsAre(""));
  EXPECT_THAT(preview("skills\\"), ElementsAre("one", "two"));
  EXPECT_THAT(preview("too"), ElementsAre("deep/down"));
  for (const char* out : {"..", "skills/../../x", "../repo"}) {
    EXPECT_EQ(refusal(out), "source_subdir must stay within the uploaded archive");
  }
  for (const char* none : {"none", "README.md", "repo"}) {
    EXPECT_EQ(refusal(none),
              std::string("source_subdir does not exist in the uploaded archive: ") + none);
  }
}

TEST(PreviewZip, SaysWhatIsWrongWithTheSkills) {
  const Scene scene;
  const auto refusal = [&](const Files& files) {
    return refusal_of([&] { scene.store().preview_zip(real_zip(files), {}); });
  };
  EXPECT_EQ(refusal({{"a/b/c/d/SKILL.md", "x"}, {"e", "x"}}),
            "No SKILL.md found in skill.zip or its subdirectories (max depth: 2)");
  EXPECT_EQ(refusal({{"SKILL.md", "---\nname: a b\n---\n"}}),
            "Skill name can only contain letters, numbers, hyphens and underscores");
  EXPECT_EQ(refusal({{"SKILL.md", "\xFF"}}), "Skill entry file SKILL.md is not valid UTF-8 text");
  EXPECT_THAT(refusal({{"SKILL.md", "---\nname: [\n---\n"}}), StartsWith("SKILL.md:3:"));
  std::string varied;
  while (varied.size() <= kMaxTextBytes) varied += std::to_string(varied.size() * 2654435761u);
  EXPECT_EQ(refusal({{"SKILL.md", varied}}),
            "Skill entry file SKILL.md exceeds the 1048576-byte limit");
  EXPECT_EQ(refusal({{std::string(250, 'l') + "/SKILL.md", "x"}, {"e", "x"}}),
            "Skill directory name is too long: skill-" + std::string(194, 'l') + "...");
}

TEST(PreviewZip, RefusesAnArchiveThatLiesAnywhere) {
  const Scene scene;
  const std::string archive =
      RawZip().add("SKILL.md", "x").add({.name = "other", .data = "content", .crc = 1}).bytes();
  EXPECT_EQ(refusal_of([&] { scene.store().preview_zip(archive, {}); }),
            "Uploaded file must be a valid .zip archive");
}

TEST(InstallZip, PutsThePackagesInPlace) {
  const Scene scene;
  const std::vector<Skill> skills = scene.scoped().install_zip(
      two_skills(), {.file_name = "demo.zip"}, {"skills/two/", "/skills/one", "skills/two"});
  EXPECT_THAT(names_of(skills), ElementsAre("two", "one"));
  EXPECT_EQ(skills[0].source_path, std::nullopt);
  EXPECT_EQ(scene.scoped().get("two"), skills[0]);
  EXPECT_EQ(scene.tree("skills/tenants/ws-1"),
            (Names{"demo-one-upload", "demo-one-upload/SKILL.md", "demo-one-upload/run.sh",
                   "demo-two-upload", "demo-two-upload/setup.py", "demo-two-upload/skill.md"}));
  struct stat info {};
  ASSERT_EQ(::stat((skills[1].package_root + "/run.sh").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777u, 0755u);
  ASSERT_EQ(::stat((skills[1].package_root + "/SKILL.md").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777u, 0644u);
}

TEST(InstallZip, KeepsEmptyDirectoriesAndFiles) {
  const Scene scene;
  scene.store().install_zip(real_zip({{"SKILL.md", "x"}, {"d/", ""}, {"e/f", ""}}), {});
  EXPECT_EQ(scene.tree(), (Names{"skill-upload", "skill-upload/SKILL.md", "skill-upload/d",
                                 "skill-upload/e", "skill-upload/e/f"}));
}

TEST(InstallZip, InstallsAllOrNothing) {
  const Scene scene;
  scene.put("skills/skill-two-upload/file", "taken");
  const Names before = scene.tree();
  const auto refusal = [&](const std::vector<std::string>& paths) {
    return refusal_of([&] { scene.store().install_zip(two_skills(), {}, paths); });
  };
  const std::string available = "skills/one, skills/two";
  EXPECT_EQ(refusal({}),
            "Multiple skills found. Please choose one or more source_paths: " + available);
  EXPECT_EQ(refusal({"skills/one", "none"}),
            "Invalid source_path \"none\". Available: " + available);
  EXPECT_EQ(refusal({"skills/one", "skills/two"}),
            "Skill directory already exists: " + scene.root() + "/skill-two-upload");
  EXPECT_EQ(scene.tree(), before);
  const std::string same = real_zip({{"a/x/SKILL.md", "1"}, {"b/x/SKILL.md", "2"}});
  EXPECT_EQ(refusal_of([&] {
              scene.store().install_zip(same, {}, {"a/x", "b/x"});
            }),
            "Duplicate target directory selected: " + scene.root() + "/skill-x-upload");
  EXPECT_EQ(scene.tree(), before);
}

TEST(InstallZip, WritesNothingOfAnArchiveThatIsRefused) {
  const Scene scene;
  std::filesystem::create_directory(scene.root());
  const auto check = [&](const RawEntry& entry) {
    const std::string archive = RawZip().add("SKILL.md", "x").add(entry).bytes();
    EXPECT_NE(refusal_of([&] { scene.store().install_zip(archive, {}); }), "") << entry.name;
    EXPECT_EQ(scene.tree(), Names{});
    EXPECT_EQ(scene.tree("."), (Names{"skills", "workspace"}));
  };
  check({.name = "../escape", .data = "x"});
  check({.name = "link", .data = "/etc/passwd", .mode = 0120777});
  check({.name = "lie", .data = as_deflated("content"), .method = 8, .size = 3});
  check({.name = "skill.md", .data = "x"});
}

TEST(InstallZip, LeavesNothingWhenTheDiskIsFull) {
  const Scene scene;
  const MemoryFileSystem small(scene.root(), "size=256k");
  if (!small.mounted()) GTEST_SKIP() << "mounting a small file system takes root";
  std::string varied;
  while (varied.size() < 500'000) varied += std::to_string(varied.size() * 2654435761u);
  try {
    scene.store().install_zip(real_zip({{"SKILL.md", "x"}, {"large", varied}}), {});
    ADD_FAILURE() << "installed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::storage_full) << error.what();
  }
  EXPECT_EQ(scene.tree(), Names{});
}

}  // namespace
}  // namespace caisson::skill
