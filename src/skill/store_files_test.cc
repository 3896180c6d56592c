#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/error.h"
#include "skill/limits.h"
#include "skill/scene_for_test.h"

namespace caisson::skill {
namespace {

using testing::ElementsAre;
using testing::StartsWith;

class StoreFiles : public testing::Test {
 protected:
  StoreFiles() {
    scene_.put("skills/x/SKILL.md", entry_text("x"));
    scene_.put("skills/x/docs/b.md", "bee");
    scene_.put("skills/x/docs/a.md", "a");
    scene_.put("skills/x/.hidden", "h");
    scene_.put("skills/secret", "secret");
    scene_.link("docs/b.md", "skills/x/inside");
    scene_.link("docs", "skills/x/folder");
    scene_.link("../secret", "skills/x/out");
    scene_.link("..", "skills/x/up");
    scene_.link("/etc/passwd", "skills/x/absolute");
    scene_.link("docs/new.md", "skills/x/dangling");
    scene_.link("loop", "skills/x/loop");
  }

  std::string read_refusal(const std::string& path) const {
    return refusal_of([&] { scene_.store().read_file("x", path); });
  }
  std::string write_refusal(const std::string& path) const {
    return refusal_of([&] { scene_.store().write_file("x", path, "new"); });
  }
  std::string list_refusal(const ListFiles& request) const {
    return refusal_of([&] { scene_.store().list_files("x", request); });
  }

  Scene scene_;
};

constexpr const char* kEscape = "path must stay within the skill package root";
constexpr const char* kAbsolute = "path must be relative to the skill package root";

TEST_F(StoreFiles, ListsADirectoryByName) {
  const FileList list = scene_.store().list_files("x", {});
  EXPECT_EQ(list.base_path, ".");
  EXPECT_FALSE(list.truncated);
  EXPECT_THAT(
      list.entries,
      ElementsAre(FileEntry{"SKILL.md", "SKILL.md", false, 24},
                  FileEntry{"absolute", "absolute", false, 0},
                  FileEntry{"dangling", "dangling", false, 0}, FileEntry{"docs", "docs", true, 0},
                  FileEntry{"folder", "folder", true, 0}, FileEntry{"inside", "inside", false, 3},
                  FileEntry{"loop", "loop", false, 0}, FileEntry{"out", "out", false, 0},
                  FileEntry{"up", "up", false, 0}));
  const FileList below = scene_.store().list_files("x", {.path = " ./docs/../docs/ "});
  EXPECT_EQ(below.base_path, "docs");
  EXPECT_THAT(below.entries, ElementsAre(FileEntry{"docs/a.md", "a.md", false, 1},
                                         FileEntry{"docs/b.md", "b.md", false, 3}));
  EXPECT_EQ(scene_.store().list_files("x", {.path = "folder"}).entries.size(), 2u);
  EXPECT_EQ(scene_.store().list_files("x", {.include_hidden = true}).entries.size(), 10u);
}

TEST_F(StoreFiles, SaysWhetherThereIsMoreThanWasListed) {
  const auto list = [&](std::int64_t most) {
    return scene_.store().list_files("x", {.path = "docs", .max_entries = most});
  };
  EXPECT_TRUE(list(1).truncated);
  EXPECT_EQ(list(1).entries.size(), 1u);
  EXPECT_FALSE(list(2).truncated);
  EXPECT_FALSE(list(5000).truncated);
  for (const std::int64_t wrong : {std::int64_t{0}, std::int64_t{-1}, INT64_MIN}) {
    EXPECT_EQ(list_refusal({.max_entries = wrong}), "max_entries must be a positive integer");
  }
}

TEST_F(StoreFiles, RefusesToListAnythingElse) {
  EXPECT_EQ(list_refusal({.path = "/etc"}), kAbsolute);
  for (const char* out : {"..", "docs/../../y", "up", "up/x"}) {
    EXPECT_EQ(list_refusal({.path = out}), kEscape) << out;
  }
  for (const char* none : {"none", "SKILL.md", "docs/a.md/x", "dangling", "loop"}) {
    EXPECT_EQ(list_refusal({.path = none}), std::string("Skill directory not found: ") + none);
  }
  EXPECT_EQ(refusal_of([&] { scene_.store().list_files("none", {}); }), "Skill \"none\" not found");
  const MemoryFileSystem memory(scene_.root() + "/x/many");
  for (std::size_t i = 0; i <= kMaxDirectoryEntries; ++i) {
    scene_.put("skills/x/many/" + std::to_string(i), "");
  }
  EXPECT_EQ(list_refusal({.path = "many"}), "Skill directory exceeds the configured entry limit");
}

TEST_F(StoreFiles, ShowsNamesThatAreNoText) {
  scene_.put("skills/x/docs/z\xFF", "1");
  EXPECT_EQ(scene_.store().list_files("x", {.path = "docs"}).entries.back().path,
            "docs/z\xEF\xBF\xBD");
}

TEST_F(StoreFiles, ReadsTextOfThePackage) {
  const FileContent direct = scene_.store().read_file("x", " docs//./b.md ");
  EXPECT_EQ(direct.path, "docs/b.md");
  EXPECT_EQ(direct.content, "bee");
  EXPECT_EQ(scene_.store().read_file("x", "inside").content, "bee");
  EXPECT_EQ(scene_.store().read_file("x", "folder/a.md").content, "a");
  scene_.put("skills/x/full", std::string(kMaxTextBytes, 'x'));
  EXPECT_EQ(scene_.store().read_file("x", "full").content.size(), kMaxTextBytes);
}

TEST_F(StoreFiles, RefusesToReadAnythingElse) {
  scene_.put("skills/x/bytes", "a\xFF");
  scene_.put("skills/x/large", std::string(kMaxTextBytes + 1, 'x'));
  ASSERT_EQ(::mkfifo((scene_.root() + "/x/fifo").c_str(), 0600), 0);
  EXPECT_EQ(read_refusal("/etc/passwd"), kAbsolute);
  for (const char* out : {"..", "../secret", "docs/../../secret", "out", "up/secret", "absolute"}) {
    EXPECT_EQ(read_refusal(out), kEscape) << out;
  }
  EXPECT_EQ(read_refusal(std::string("docs/a.md\0x", 11)), kEscape);
  for (const char* none : {"none", "docs", "docs/a.md/x", "fifo", "dangling", "loop"}) {
    EXPECT_EQ(read_refusal(none), std::string("Skill file not found: ") + none);
  }
  EXPECT_EQ(read_refusal(""), "Skill file not found: .");
  EXPECT_EQ(read_refusal("bytes"), "Skill file bytes is not valid UTF-8 text");
  EXPECT_EQ(read_refusal("large"), "Skill file large exceeds the 1048576-byte limit");
}

TEST_F(StoreFiles, WritesAFileAndTheDirectoriesOnTheWay) {
  const FileWritten written = scene_.store().write_file("x", "./new/deep/f.txt", "t\u00e9xt");
  EXPECT_EQ(written.path, "new/deep/f.txt");
  EXPECT_EQ(written.bytes_written, 5u);
  EXPECT_EQ(scene_.content("skills/x/new/deep/f.txt"), "t\u00e9xt");
  scene_.store().write_file("x", "folder/c.md", "c");
  EXPECT_EQ(scene_.content("skills/x/docs/c.md"), "c");
  scene_.store().write_file("x", "inside", "changed");
  EXPECT_EQ(scene_.content("skills/x/docs/b.md"), "changed");
  EXPECT_TRUE(std::filesystem::is_symlink(scene_.root() + "/x/inside"));
  scene_.store().write_file("x", "dangling", "made");
  EXPECT_EQ(scene_.content("skills/x/docs/new.md"), "made");
  for (const std::string& path : scene_.tree()) EXPECT_FALSE(path.starts_with(".")) << path;
}

TEST_F(StoreFiles, RefusesToWriteAnywhereElse) {
  const auto before = scene_.tree();
  EXPECT_EQ(write_refusal("/etc/passwd"), kAbsolute);
  for (const char* out : {"..", "../y", "out", "up/secret", "up/new/file", "absolute", "loop"}) {
    EXPECT_EQ(write_refusal(out), kEscape) << out;
  }
  EXPECT_EQ(write_refusal("docs/a.md/x"), "Skill directory not found: docs/a.md");
  for (const char* directory : {"docs", "folder"}) {
    EXPECT_THAT(write_refusal(directory), StartsWith("path must name a file"));
  }
  EXPECT_THAT(write_refusal(""), StartsWith("path must name a file"));
  EXPECT_EQ(
      refusal_of([&] { scene_.store().write_file("x", "f", std::string(kMaxTextBytes + 1, 'x')); }),
      "Skill file f exceeds the 1048576-byte limit");
  EXPECT_EQ(scene_.tree(), before);
  EXPECT_EQ(scene_.content("skills/secret"), "secret");
}

TEST_F(StoreFiles, KeepsTheOldContentWhenTheDiskIsFull) {
  const Scene full;
  const MemoryFileSystem small(full.root(), "size=256k");
  if (!small.mounted()) GTEST_SKIP() << "mounting a small file system takes root";
  full.put("skills/x/SKILL.md", entry_text("x"));
  full.put("skills/x/file", "old");
  const auto code_of = [](const auto& action) {
    try {
      action();
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::internal_error;
  };
  const Store store = full.store();
  const std::string large(kMaxTextBytes / 2, 'x');
  EXPECT_EQ(code_of([&] { store.write_file("x", "file", large); }), ErrorCode::storage_full);
  EXPECT_EQ(code_of([&] {
              store.update("x", {{"instructions", large}});
            }),
            ErrorCode::storage_full);
  EXPECT_EQ(code_of([&] {
              store.create({{"name", "new"}, {"instructions", large}});
            }),
            ErrorCode::storage_full);
  EXPECT_EQ(full.content("skills/x/file"), "old");
  EXPECT_EQ(full.content("skills/x/SKILL.md"), entry_text("x"));
  EXPECT_EQ(full.tree(), (std::set<std::string>{"x", "x/SKILL.md", "x/file"}));
}

}  // namespace
}  // namespace caisson::skill
