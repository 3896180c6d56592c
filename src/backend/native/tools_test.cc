#include "backend/native/tools.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <set>
#include <thread>

#include "base/child_process.h"
#include "base/error.h"
#include "base/file.h"
#include "base/str.h"
#include "base/temporary_directory.h"
#include "base/text.h"

namespace caisson::backend::native {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

// Makes the wheel `tiny` 1.0 in a directory and prints its hash.
constexpr const char* kMakeWheel = R"(
import hashlib, sys, zipfile
path = sys.argv[1] + "/tiny-1.0-py3-none-any.whl"
info = "tiny-1.0.dist-info/"
files = {
    "tiny/__init__.py": "",
    "tiny-1.0.data/scripts/tiny": "#!/bin/sh\n",
    info + "METADATA": "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n",
    info + "WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
}
files[info + "RECORD"] = "".join(name + ",,\n" for name in [*files, info + "RECORD"])
with zipfile.ZipFile(path, "w") as wheel:
    for name, content in files.items():
        entry = zipfile.ZipInfo(name)
        entry.external_attr = (0o100755 if "scripts" in name else 0o100644) << 16
        wheel.writestr(entry, content)
print(hashlib.sha256(open(path, "rb").read()).hexdigest())
)";

std::string run(std::vector<std::string> argv) {
  const UniqueFd output = memory_file("output");
  const UniqueFd null = open_file("/dev/null", O_RDONLY);
  Command command;
  command.argv = std::move(argv);
  command.env = {"PATH=/usr/bin:/bin"};
  command.fds = {{null.get(), 0}, {output.get(), 1}, {2, 2}};
  EXPECT_EQ(spawn(command).wait(), 0);
  return std::string(trim(read_file(str("/proc/self/fd/", output.get()))));
}

// A host whose index is a directory.
class ToolsTest : public testing::Test {
 protected:
  ToolsTest() {
    fs::create_directories(directory_ / "index");
    fs::create_directories(directory_ / "state");
    hash_ = run({"/usr/bin/python3", "-c", kMakeWheel, directory_ / "index"});
    ::setenv("PIP_NO_INDEX", "1", 1);
    ::setenv("PIP_FIND_LINKS", (directory_ / "index").c_str(), 1);
  }
  ~ToolsTest() override {
    ::unsetenv("PIP_NO_INDEX");
    ::unsetenv("PIP_FIND_LINKS");
  }

  Tools tools(const std::string& set = "tiny-1.0", std::string hash = "") const {
    if (hash.empty()) hash = hash_;
    return Tools(directory_ / "state", {.name = set,
                                        .requirements = str("tiny==1.0 --hash=sha256:", hash, "\n"),
                                        .files = {"tiny/__init__.py", "bin/tiny"}});
  }

  static std::set<std::string> names(const fs::path& directory) {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory)) {
      names.insert(entry.path().filename());
    }
    return names;
  }
  fs::path place() const { return directory_ / "state/tools"; }

  // The error of a fetch, which leaves nothing.
  Error refusal(const Tools& wanted, const Tools::Fetch& how = {}) const {
    try {
      wanted.fetch(how);
    } catch (const Error& error) {
      EXPECT_FALSE(wanted.fetched());
      EXPECT_THAT(names(place() / "shown"), IsEmpty());
      EXPECT_THAT(names(place()), UnorderedElementsAre("shown", ".lock"));
      return error;
    }
    ADD_FAILURE() << "it was fetched";
    return {ErrorCode::internal_error, ""};
  }

  const TemporaryDirectory directory_;
  std::string hash_;
};

TEST_F(ToolsTest, AreFetchedOnceAndAreThereWithoutAnIndex) {
  EXPECT_FALSE(tools().fetched());
  EXPECT_TRUE(tools().fetch({}));
  EXPECT_TRUE(tools().fetched());
  EXPECT_THAT(names(place() / "shown"), ElementsAre("tiny-1.0"));
  EXPECT_TRUE(fs::exists(tools().directory() / "tiny/__init__.py"));
  fs::remove_all(directory_ / "index");
  EXPECT_FALSE(tools().fetch({}));
}

TEST_F(ToolsTest, CanBeReadByTheUserOfABoxWhateverTheUmask) {
  const mode_t before = ::umask(077);
  tools().fetch({});
  ::umask(before);
  for (const auto& entry : fs::recursive_directory_iterator(place() / "shown")) {
    struct stat info {};
    ASSERT_EQ(::lstat(entry.path().c_str(), &info), 0);
    const unsigned wanted = S_ISDIR(info.st_mode) ? 0755 : 0644;
    EXPECT_EQ(info.st_mode & wanted, wanted) << entry.path();
    EXPECT_EQ(info.st_mode & 06022, 0u) << entry.path();
  }
  struct stat script {};
  ASSERT_EQ(::lstat((tools().directory() / "bin/tiny").c_str(), &script), 0);
  EXPECT_EQ(script.st_mode & 0777u, 0755u);
  struct stat closed {};
  ASSERT_EQ(::stat(place().c_str(), &closed), 0);
  EXPECT_EQ(closed.st_mode & 0777u, 0700u) << "what is half fetched is nobody's to see";
}

TEST_F(ToolsTest, MustBeWhatWasAskedFor) {
  const Error error = refusal(tools("tiny-1.0", std::string(64, '0')));
  EXPECT_EQ(error.code(), ErrorCode::backend_unavailable);
  EXPECT_THAT(error.what(), HasSubstr("caisson image tools"));
  EXPECT_TRUE(tools().fetch({})) << "a failure is no obstacle to the next try";
}

TEST_F(ToolsTest, SayWhatPipSaidWhenThereIsNoneToBeHad) {
  fs::remove_all(directory_ / "index");
  EXPECT_THAT(refusal(tools()).what(), HasSubstr("tiny"));
}

TEST_F(ToolsTest, AreNotThereWhenPipPutThemElsewhere) {
  Tools wanted(directory_ / "state", {.name = "other",
                                      .requirements = str("tiny==1.0 --hash=sha256:", hash_),
                                      .files = {"bin/other"}});
  EXPECT_THAT(refusal(wanted).what(), HasSubstr("bin/other"));
}

TEST_F(ToolsTest, EndWhenSomebodyWantsThemTo) {
  const UniqueFd stop(::eventfd(1, EFD_CLOEXEC));
  EXPECT_EQ(refusal(tools(), {.stop = stop.get()}).code(), ErrorCode::cancelled);
}

TEST_F(ToolsTest, RunNothingThatLiesInTheWorkingDirectory) {
  const std::string marker = directory_ / "ran";
  fs::create_directories(directory_ / "trap/pip");
  for (const char* name : {"trap/pip/__init__.py", "trap/pip/__main__.py", "trap/zipfile.py"}) {
    replace_file(directory_ / name, str("open('", marker, "', 'w')\n"));
  }
  const fs::path before = fs::current_path();
  fs::current_path(directory_ / "trap");
  ::setenv("PYTHONPATH", (directory_ / "trap").c_str(), 1);
  EXPECT_TRUE(tools().fetch({}));
  ::unsetenv("PYTHONPATH");
  fs::current_path(before);
  EXPECT_FALSE(fs::exists(marker));
}

TEST_F(ToolsTest, AreWholeWhenTwoFetchThemAtOnce) {
  std::exception_ptr failure;
  std::thread other([&] {
    try {
      tools().fetch({});
    } catch (...) {
      failure = std::current_exception();
    }
  });
  tools().fetch({});
  other.join();
  EXPECT_FALSE(failure);
  EXPECT_TRUE(fs::exists(tools().directory() / "bin/tiny"));
  EXPECT_THAT(names(place()), UnorderedElementsAre("shown", ".lock"));
}

TEST_F(ToolsTest, AreRidOfWhatAKilledProcessLeftButNotOfTheWorkOfALivingOne) {
  ASSERT_TRUE(tools().shown());
  fs::create_directories(place() / ".new-dead/bin");
  fs::create_directories(place() / ".new-alive/bin");
  const UniqueFd alive = open_file(place() / ".new-alive", O_RDONLY | O_DIRECTORY);
  ASSERT_EQ(::flock(alive.get(), LOCK_EX), 0);
  tools().fetch({});
  EXPECT_THAT(names(place()), UnorderedElementsAre("shown", ".lock", ".new-alive"));
}

TEST_F(ToolsTest, LeaveTheSetBeforeThemToBoxesThatHaveIt) {
  tools("first").fetch({});
  tools("second").fetch({});
  EXPECT_THAT(names(place() / "shown"), UnorderedElementsAre("first", "second"));
  tools("third").fetch({});
  EXPECT_EQ(names(place() / "shown").size(), 2u);
  EXPECT_TRUE(tools("third").fetched());
}

TEST_F(ToolsTest, AreNotShownFromADirectoryThatOthersCanChange) {
  ASSERT_TRUE(tools().shown());
  for (const fs::path& path : {place(), place() / "shown"}) {
    ASSERT_EQ(::chmod(path.c_str(), 0777), 0);
    EXPECT_FALSE(tools().shown()) << path;
    EXPECT_THROW(tools().fetch({}), Error) << path;
    ASSERT_EQ(::chmod(path.c_str(), path == place() ? 0700 : 0755), 0);
  }
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown((place() / "shown").c_str(), 12345, 12345), 0);
    EXPECT_FALSE(tools().shown());
    EXPECT_THROW(tools().fetch({}), Error);
    ASSERT_EQ(::chown((place() / "shown").c_str(), 0, 0), 0);
  }
  EXPECT_TRUE(tools().shown());
}

TEST_F(ToolsTest, FollowNoLinkOutOfTheStateDirectory) {
  fs::create_directories(directory_ / "elsewhere/shown");
  fs::create_directory_symlink(directory_ / "elsewhere", place());
  EXPECT_FALSE(tools().shown());
  EXPECT_THROW(tools().fetch({}), Error);
  fs::remove(place());
  fs::create_directories(place());
  fs::create_directory_symlink(directory_ / "elsewhere/shown", place() / "shown");
  EXPECT_FALSE(tools().shown());
  EXPECT_THROW(tools().fetch({}), Error);
  EXPECT_THAT(names(directory_ / "elsewhere/shown"), IsEmpty());
}

TEST_F(ToolsTest, MakeNoStateDirectoryJustToBeShown) {
  const Tools nowhere(directory_ / "absent");
  EXPECT_FALSE(nowhere.shown());
  EXPECT_FALSE(fs::exists(directory_ / "absent"));
}

TEST(FetchError, NamesThePackageThatIsMissing) {
  EXPECT_THAT(fetch_error(127 << 8, "sh: 1: exec: python3: not found\n", "set").what(),
              HasSubstr("apt-get install python3 "));
  EXPECT_THAT(fetch_error(1 << 8, "/usr/bin/python3: No module named pip\n", "set").what(),
              HasSubstr("apt-get install python3-pip"));
  EXPECT_EQ(fetch_error(1 << 8, "OSError: [Errno 28] No space left on device\n", "set").code(),
            ErrorCode::storage_full);
  const Error other = fetch_error(2 << 8, "one\ntwo\n\nERROR: no\x1b[2J such\nthing\n", "set");
  EXPECT_THAT(other.what(), HasSubstr("two ERROR: no"));
  EXPECT_EQ(std::string(other.what()).find('\x1b'), std::string::npos);
}

TEST(PinnedTools, AreOfExactVersionsWithHashes) {
  const ToolSet& pinned = pinned_tools();
  EXPECT_EQ(pinned.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789.-+"),
            std::string::npos)
      << pinned.name << " goes into scripts as it is";
  for (const std::string_view line : split(trim(pinned.requirements), '\n')) {
    EXPECT_NE(line.find("=="), std::string_view::npos) << line;
    EXPECT_NE(line.find(" --hash=sha256:"), std::string_view::npos) << line;
  }
}

}  // namespace
}  // namespace caisson::backend::native
