#include "backend/artifact_tree.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <map>

#include "base/error.h"
#include "base/file.h"
#include "base/sha256.h"
#include "base/str.h"
#include "base/temporary_directory.h"
#include "model/tree_manifest.h"

namespace caisson::backend {
namespace {

namespace fs = std::filesystem;

class ArtifactTree : public ::testing::Test {
 protected:
  void write(const std::string& path, const std::string& content, unsigned mode = 0644) {
    const fs::path file = source_ / path;
    fs::create_directories(file.parent_path());
    replace_file(file, content, mode);
    files_[path] = {content, mode};
  }

  // Of what was written last.
  std::string write_manifest() {
    std::string files;
    std::uint64_t total = 0;
    for (const auto& [path, file] : files_) {
      files += str(files.empty() ? "" : ",", R"({"path":")", path, R"(","size":)",
                   file.first.size(), R"(,"sha256":")", sha256_hex(file.first),
                   R"(","executable":)", (file.second & 0111) != 0 ? "true" : "false", "}");
      total += file.first.size();
    }
    const std::string text =
        str(R"({"algorithm":"sha256-tree-v1","files":[)", files, R"(],"total_bytes":)", total, "}");
    replace_file(manifest_, text);
    return model::read_tree_manifest(text).digest;
  }

  fs::path copy(const std::string& digest) {
    const UniqueFd source = open_file(source_, O_PATH | O_DIRECTORY);
    const UniqueFd manifest = open_file(manifest_, O_PATH);
    const UniqueFd made = copy_artifact(source.get(), manifest.get(), digest, copies_);
    EXPECT_TRUE(fs::is_directory(str("/proc/self/fd/", made.get())));
    return copies_ / digest.substr(7);
  }

  std::string refusal(const std::string& digest) {
    try {
      copy(digest);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::artifact_refused);
      constexpr std::string_view kFailed = "Immutable artifact preparation failed: ";
      const std::string text = error.what();
      EXPECT_TRUE(text.starts_with(kFailed)) << text;
      EXPECT_TRUE(fs::is_empty(copies_));
      return text.substr(kFailed.size());
    }
    return "";
  }

  TemporaryDirectory temporary_;
  const fs::path source_ = fs::canonical(temporary_.path()) / "source";
  const fs::path manifest_ = fs::canonical(temporary_.path()) / "manifest.json";
  const fs::path copies_ = fs::canonical(temporary_.path()) / "copies/box-1";
  std::map<std::string, std::pair<std::string, unsigned>> files_;
};

TEST_F(ArtifactTree, IsCopiedWithWhatItsManifestNames) {
  write("SKILL.md", "read me");
  write("bin/tool", "#!/bin/sh\n", 0755);
  write("empty", "");
  const std::string digest = write_manifest();
  replace_file(source_ / "not named", "secret");
  const ::mode_t umask_before = ::umask(0077);
  const fs::path made = copy(digest);
  ::umask(umask_before);
  EXPECT_EQ(read_file(made / "SKILL.md"), "read me");
  EXPECT_EQ(read_file(made / "bin/tool"), "#!/bin/sh\n");
  EXPECT_TRUE(fs::exists(made / "empty"));
  EXPECT_FALSE(fs::exists(made / "not named"));
  EXPECT_EQ(static_cast<unsigned>(fs::status(made / "SKILL.md").permissions()), 0444u);
  EXPECT_EQ(static_cast<unsigned>(fs::status(made / "bin/tool").permissions()), 0555u);
  EXPECT_EQ(static_cast<unsigned>(fs::status(made / "bin").permissions()), 0755u);
  EXPECT_EQ(static_cast<unsigned>(fs::status(made).permissions()), 0755u);
}

TEST_F(ArtifactTree, StaysWhatItWasWhateverHappensToItsSource) {
  write("SKILL.md", "read me");
  const std::string digest = write_manifest();
  const fs::path made = copy(digest);
  replace_file(source_ / "SKILL.md", "another");
  EXPECT_EQ(copy(digest), made);
  EXPECT_EQ(read_file(made / "SKILL.md"), "read me");
  remove_artifact(copies_, digest);
  EXPECT_FALSE(fs::exists(made));
  EXPECT_EQ(refusal(digest), "Artifact source changed: SKILL.md");
  remove_artifact(copies_, digest);
}

TEST_F(ArtifactTree, IsNotShownWhenItIsNotWhatItsManifestSays) {
  write("a/b", "read me");
  const std::string digest = write_manifest();
  const auto changed = [&](const std::string& content) {
    replace_file(source_ / "a/b", content);
    return refusal(digest);
  };
  EXPECT_EQ(changed("read mE"), "Artifact source changed: a/b");
  EXPECT_EQ(changed("read me!"), "Artifact source changed: a/b");
  EXPECT_EQ(changed("read m"), "Artifact source changed: a/b");
  fs::remove(source_ / "a/b");
  EXPECT_EQ(refusal(digest), "a/b: No such file or directory");
  EXPECT_EQ(refusal(str("sha256:", std::string(64, '0'))),
            "Artifact manifest does not match content_digest");
  replace_file(manifest_, "{}");
  EXPECT_EQ(refusal(digest), "Artifact manifest has an invalid shape");
}

TEST_F(ArtifactTree, FollowsNoLinkAndWaitsForNobody) {
  write("a/b", "read me");
  const std::string digest = write_manifest();
  replace_file(temporary_.path() / "outside", "read me");
  fs::remove(source_ / "a/b");
  fs::create_symlink("../../outside", source_ / "a/b");
  EXPECT_EQ(refusal(digest), "a/b: Too many levels of symbolic links");
  fs::remove(source_ / "a/b");
  ASSERT_EQ(::mkfifo((source_ / "a/b").c_str(), 0600), 0);
  EXPECT_EQ(refusal(digest), "Artifact source must be a regular file");
  fs::remove_all(source_ / "a");
  fs::create_directories(temporary_.path() / "elsewhere");
  replace_file(temporary_.path() / "elsewhere/b", "read me");
  fs::create_symlink("../elsewhere", source_ / "a");
  EXPECT_EQ(refusal(digest), "a/b: Too many levels of symbolic links");
}

TEST_F(ArtifactTree, IsBegunAnewWhereAnotherCameToNoEnd) {
  write("a", "read me");
  const std::string digest = write_manifest();
  fs::create_directories(copies_ / ".unfinished/a");
  EXPECT_EQ(read_file(copy(digest) / "a"), "read me");
}

TEST_F(ArtifactTree, FindsNoRoomWhereABoxHasTooMany) {
  for (int i = 0; i < 256; ++i) {
    fs::create_directories(copies_ / str(std::string(60, '0'), 1000 + i));
  }
  write("a", "read me");
  const std::string digest = write_manifest();
  const UniqueFd source = open_file(source_, O_PATH | O_DIRECTORY);
  const UniqueFd manifest = open_file(manifest_, O_PATH);
  try {
    copy_artifact(source.get(), manifest.get(), digest, copies_);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "Immutable artifact preparation failed: Immutable artifact cache limit reached; "
                 "acquire a new Box");
  }
}

}  // namespace
}  // namespace caisson::backend
