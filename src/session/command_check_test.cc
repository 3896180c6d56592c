#include "session/command_check.h"

#include <elf.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>

#include "base/child_process.h"
#include "base/file.h"
#include "base/str.h"
#include "base/temporary_directory.h"
#include "model/tools.h"

namespace caisson::session {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// The script as a box runs it, in a directory with a bin/ that PATH names.
class LookUpScript : public testing::Test {
 protected:
  LookUpScript() {
    std::filesystem::create_directories(directory_ / "bin");
    std::filesystem::create_directories(directory_ / "later");
  }

  void add(const std::string& name, const std::string& content, unsigned mode = 0755) const {
    replace_file(directory_ / name, content, mode);
  }

  std::optional<LookUp> look(const std::string& command, std::vector<std::string> others = {}) {
    const UniqueFd output = memory_file("output");
    const UniqueFd null = open_file("/dev/null", O_RDONLY);
    Command shell;
    shell.argv = {"/bin/sh", "-c", str("echo of a profile; ", kLookUp), command};
    for (std::string& other : others) shell.argv.push_back(std::move(other));
    shell.env = {str("PATH=", path())};
    shell.fds = {{null.get(), 0}, {output.get(), 1}, {2, 2}};
    spawn(shell).wait();
    return parse_look_up(read_file(str("/proc/self/fd/", output.get())));
  }

  std::string path() const {
    return str(directory_ / "bin", ":", directory_ / "later", ":/usr/bin:/bin");
  }

  TemporaryDirectory directory_;
};

TEST_F(LookUpScript, FindsWhatTheShellWouldStart) {
  add("later/server", "#!/bin/sh\nexit\n");
  const auto told = look("server", {"true"});
  ASSERT_TRUE(told);
  EXPECT_EQ(told->path, directory_ / "later/server");
  EXPECT_TRUE(told->executable);
  EXPECT_EQ(told->head, "#!/bin/sh\nexit\n");
  EXPECT_EQ(told->search_path, path());
  EXPECT_EQ(look(directory_ / "later/server")->path, directory_ / "later/server");
}

TEST_F(LookUpScript, PassesOverWhatIsNotExecutableAsTheShellDoes) {
  add("bin/server", "text", 0644);
  const auto alone = look("server");
  ASSERT_TRUE(alone);
  EXPECT_EQ(alone->path, directory_ / "bin/server");
  EXPECT_FALSE(alone->executable);
  add("later/server", "#!/bin/sh\n");
  EXPECT_EQ(look("server")->path, directory_ / "later/server");
  EXPECT_FALSE(look(directory_ / "bin/server")->executable);
}

TEST_F(LookUpScript, TellsWhichOfTheOthersAreThere) {
  add("bin/python3", "#!/bin/sh\n");
  std::filesystem::create_directories(directory_ / "bin/python");
  const auto told = look("python", {"python2", "python3", directory_ / "bin/python3", "/absent"});
  ASSERT_TRUE(told);
  EXPECT_EQ(told->path, "") << "a directory is no command";
  EXPECT_THAT(told->others, ElementsAre("python3", directory_ / "bin/python3"));
}

TEST_F(LookUpScript, TakesWordsForNamesAndNothingElse) {
  for (const char* name : {"$(exit 3)", "a b", "-v", "*", "`true`", "absent/../*", ""}) {
    const auto told = look(name);
    ASSERT_TRUE(told) << name;
    EXPECT_EQ(told->path, "") << name;
  }
}

TEST(LookUp, IsNotWhatSomethingElseSaid) {
  EXPECT_FALSE(parse_look_up(""));
  EXPECT_FALSE(parse_look_up("sh: syntax error\n"));
  EXPECT_FALSE(parse_look_up("\ncaisson-look-up\n"));
  EXPECT_FALSE(parse_look_up("\ncaisson-look-up\n/bin\nperhaps x\n"));
  EXPECT_EQ(parse_look_up("noise\ncaisson-look-up\n/bin\nmissing \n")->search_path, "/bin");
}

TEST(Needs, OfAScriptAreItsInterpreterAndWhatEnvRuns) {
  EXPECT_THAT(needs_of("#!/bin/sh\nexit\n"), ElementsAre("/bin/sh"));
  EXPECT_THAT(needs_of("#! /opt/venv/bin/python3.12 -u\r\n"),
              ElementsAre("/opt/venv/bin/python3.12"));
  EXPECT_THAT(needs_of("#!/usr/bin/env node"), ElementsAre("/usr/bin/env", "node"));
  EXPECT_THAT(needs_of("#!/usr/bin/env -S A=b deno run\n"), ElementsAre("/usr/bin/env", "deno"));
  EXPECT_THAT(needs_of("#!\n"), IsEmpty());
  EXPECT_THAT(needs_of("echo no interpreter\n"), IsEmpty());
  EXPECT_THAT(needs_of(""), IsEmpty());
}

TEST(Needs, OfAToolAreWhatItRuns) {
  EXPECT_THAT(needs_of(str("#!/bin/sh\n", model::kToolRuns, "/opt/caisson/tools/1/bin/uv\nexec\n")),
              ElementsAre("/bin/sh", "/opt/caisson/tools/1/bin/uv"));
}

std::string program(std::uint64_t loader_at, const std::string& loader) {
  Elf64_Ehdr header{};
  std::memcpy(&header.e_ident[0], ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_phoff = sizeof header;
  header.e_phnum = 2;
  Elf64_Phdr segments[2]{};
  segments[1].p_type = PT_INTERP;
  segments[1].p_offset = loader_at;
  segments[1].p_filesz = loader.size() + 1;
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  bytes.append(reinterpret_cast<const char*>(&segments[0]), sizeof segments);
  return bytes + loader + '\0';
}

TEST(Needs, OfAProgramAreItsLoader) {
  constexpr std::size_t kBehind = sizeof(Elf64_Ehdr) + 2 * sizeof(Elf64_Phdr);
  const std::string whole = program(kBehind, "/lib/ld-musl-x86_64.so.1");
  EXPECT_THAT(needs_of(whole), ElementsAre("/lib/ld-musl-x86_64.so.1"));
  // Whatever a box makes of the rest, nothing is read behind it.
  EXPECT_THAT(needs_of(program(~std::uint64_t{0}, "/lib/ld.so")), IsEmpty());
  for (std::size_t length = 0; length < kBehind; ++length) {
    EXPECT_THAT(needs_of(whole.substr(0, length)), IsEmpty()) << length;
  }
}

TEST(Substitutes, AreNamedAsTheyAreCalled) {
  const auto call = [](const char* command) {
    const std::vector<Substitute> found = substitutes_for(command);
    return found.empty() ? "" : found.front().call;
  };
  EXPECT_EQ(call("python"), "python3");
  EXPECT_EQ(call("/srv/server/.venv/bin/python3.12"), "python3");
  EXPECT_EQ(call("uvx"), "uv tool run");
  EXPECT_EQ(call("npx"), "npm exec");
  EXPECT_EQ(call("something"), "");
}

}  // namespace
}  // namespace caisson::session
