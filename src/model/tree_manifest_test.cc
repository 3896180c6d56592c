#include "model/tree_manifest.h"

#include <gtest/gtest.h>

#include <utility>

#include "base/str.h"
#include "model/refusal_for_test.h"

namespace caisson::model {
namespace {

constexpr const char* kHello = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";

std::string entry(std::string_view path, std::string_view size = "5",
                  std::string_view digest = kHello, std::string_view executable = "false") {
  return str(R"({"path":")", path, R"(","size":)", size, R"(,"sha256":")", digest,
             R"(","executable":)", executable, "}");
}

std::string manifest(const std::string& files, std::string_view total) {
  return str(R"({"algorithm":"sha256-tree-v1","files":[)", files, R"(],"total_bytes":)", total,
             "}");
}

// The digests here and below are of langbot_plugin.artifact.validate_tree_manifest().
TEST(TreeManifest, HasTheDigestThatLangBotGivesIt) {
  const TreeManifest read = read_tree_manifest(str(
      " ",
      manifest(
          entry("SKILL.md") + ", " + entry("bin/\\u00fc \\u0001\\\"x\\u007f", "0", kHello, "true"),
          "5"),
      "\n"));
  EXPECT_EQ(read.digest, "sha256:c3a0bbab5c4ea295d74751c169c548953890acea5f20c3f8a6f9195a65c039b0");
  ASSERT_EQ(read.files.size(), 2u);
  EXPECT_EQ(
      read.files[0],
      (TreeManifest::File{.path = "SKILL.md", .size = 5, .sha256 = kHello, .executable = false}));
  EXPECT_EQ(read.files[1].path, "bin/ü \x01\"x\x7f");
  EXPECT_TRUE(read.files[1].executable);
  EXPECT_EQ(read.total_bytes, 5u);
  EXPECT_EQ(read_tree_manifest(manifest("", "0")).digest,
            "sha256:8e00d1a31787e59c19fc53875e374237e940789d1de2f1bee5273985a41f4e79");
}

TEST(TreeManifest, IsRefusedWithLangBotsSentences) {
  const std::pair<std::string, std::string> rows[] = {
      {"{", "Artifact manifest is invalid JSON"},
      {std::string(kMaxManifestBytes + 1, ' '), "Artifact manifest is too large"},
      {"[]", "Artifact manifest has an invalid shape"},
      {R"({"algorithm":"sha256-tree-v1","files":[]})", "Artifact manifest has an invalid shape"},
      {R"({"algorithm":"sha256-tree-v1","files":[],"total_bytes":0,"more":1})",
       "Artifact manifest has an invalid shape"},
      {R"({"algorithm":"sha256-tree-v2","files":[],"total_bytes":0})",
       "Artifact manifest uses an unsupported algorithm"},
      {R"({"algorithm":"sha256-tree-v1","files":{},"total_bytes":0})",
       "Artifact manifest contains too many files"},
      {manifest(R"({"path":"a"})", "0"), "Artifact manifest contains an invalid file entry"},
      {manifest("1", "0"), "Artifact manifest contains an invalid file entry"},
      {manifest(entry("a", "-1"), "0"), "Artifact manifest contains an invalid file size"},
      {manifest(entry("a", "5.0"), "5"), "Artifact manifest contains an invalid file size"},
      {manifest(entry("a", "true"), "1"), "Artifact manifest contains an invalid file size"},
      {manifest(entry("a", "5", "ABC"), "5"), "Artifact manifest contains an invalid file digest"},
      {manifest(entry("a", "5", kHello, "1"), "5"),
       "Artifact manifest contains an invalid file mode"},
      {manifest(entry("a"), "6"), "Artifact manifest contains an invalid total size"},
      {manifest(entry("a"), "5.0"), "Artifact manifest contains an invalid total size"},
      {manifest(entry("a", "268435457"), "268435457"),
       "Artifact manifest contains an invalid total size"},
      {manifest(entry("a", "18446744073709551615") + "," + entry("b", "6"), "5"),
       "Artifact manifest contains an invalid total size"},
  };
  for (const auto& [text, sentence] : rows) {
    EXPECT_EQ(refusal_of([&] { read_tree_manifest(text); }), sentence) << text.substr(0, 200);
  }
}

TEST(TreeManifest, NamesNoPathThatLeadsElsewhere) {
  for (const char* path :
       {"", "/a", "..", "../a", "a/../b", "a//b", "a/", ".", "./a", "a\\\\b", "a\\u0000b"}) {
    EXPECT_EQ(refusal_of([&] { read_tree_manifest(manifest(entry(path), "5")); }),
              "Artifact manifest contains an unsafe path")
        << path;
  }
  EXPECT_EQ(refusal_of([&] { read_tree_manifest(manifest(entry("a") + "," + entry("a"), "10")); }),
            "Artifact manifest contains an unsafe path");
}

}  // namespace
}  // namespace caisson::model
