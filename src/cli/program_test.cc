#include "cli/program.h"

#include <gtest/gtest.h>

#include "backend/fake/fake.h"
#include "base/error.h"
#include "cli/report.h"

namespace caisson::cli {
namespace {

const std::vector<BackendKind>& backends() {
  static const std::vector<BackendKind> kinds = {
      {"fake", [](boost::asio::any_io_executor executor, BackendOptions) {
         return std::make_unique<backend::fake::Fake>(std::move(executor));
       }}};
  return kinds;
}

// What the program prints and how it exits; an error comes as its sentence.
struct Result {
  int code = 0;
  std::string out;
  std::string error;
};

Result run(std::vector<std::string> arguments) {
  Result result;
  Program program(std::move(arguments), backends());
  testing::internal::CaptureStdout();
  try {
    result.code = program.run();
  } catch (const Error& error) {
    result.error = error.what();
    result.code = exit_code_of(error);
  }
  result.out = testing::internal::GetCapturedStdout();
  return result;
}

TEST(Program, PassesTheCommandOnAsItIs) {
  const Result result = run({"exec", "--", "echo", "--json", "-x", "--", "", "[a,b]", "{}"});
  EXPECT_EQ(result.error, "");
  EXPECT_EQ(result.out, "--json -x --  [a,b] {}\n");
}

TEST(Program, ExitsAsTheCommandDoes) {
  EXPECT_EQ(run({"exec", "--", "true"}).code, 0);
  EXPECT_EQ(run({"exec", "--", "sh", "-c", "exit 7"}).code, 7);
  EXPECT_EQ(run({"exec", "--", "sh", "-c", "kill -9 $$"}).code, 137);
}

TEST(Program, TellsAMissingProgramFromAFailure) {
  const auto code = [](ErrorCode error, const char* sentence) {
    return exit_code_of(Error(error, sentence));
  };
  EXPECT_EQ(code(ErrorCode::command_not_started, "x: not found in the box"), kExitNotFound);
  EXPECT_EQ(code(ErrorCode::command_not_started, "x: cannot be executed: Permission denied"),
            kExitCannotExecute);
  EXPECT_EQ(code(ErrorCode::mount_refused, "/proc may not be mounted"), kExitFailure);
  EXPECT_EQ(code(ErrorCode::validation_error, "--cpus: cpus must be greater than 0"), kExitUsage);
}

TEST(Program, RefusesOptionsItDoesNotKnow) {
  const Result result = run({"exec", "--memroy", "5", "--", "true"});
  EXPECT_EQ(result.code, kExitUsage);
  EXPECT_EQ(result.error, "unknown option --memroy; see caisson exec --help");
  EXPECT_EQ(run({"--json", "doctor"}).error, "unknown option --json; see caisson doctor --help");
}

TEST(Program, NamesTheOptionWithoutAValue) {
  EXPECT_EQ(run({"exec", "--memory"}).error,
            "--memory: a value is needed; see caisson exec --help");
}

TEST(Program, WantsTheCommandBehindTwoDashes) {
  EXPECT_EQ(run({"exec", "ls", "-l"}).error,
            "exec: write the command behind --, as in: caisson exec -- ls");
  const std::string none =
      "exec: there is no command; write it behind --, as in: caisson exec -- ls -l";
  EXPECT_EQ(run({"exec"}).error, none);
  EXPECT_EQ(run({"exec", "--"}).error, none);
  EXPECT_EQ(run({"version", "--", "true"}).error, "only exec and start take a command behind --");
}

TEST(Program, ListsTheSubcommandsThereAre) {
  EXPECT_EQ(run({}).error,
            "caisson needs a subcommand: exec, serve, box, ls, inspect, rm, stats, start, ps, "
            "signal, stop, logs, "
            "attach, cp, image, langbot, doctor, config, version, completion; see caisson --help");
  EXPECT_EQ(
      run({"exce"}).error,
      "unknown subcommand \"exce\" of caisson: there are exec, serve, box, ls, inspect, rm, "
      "stats, start, ps, signal, stop, logs, attach, cp, image, langbot, doctor, config, version, "
      "completion");
  EXPECT_EQ(run({"image", "list"}).error,
            "unknown subcommand \"list\" of caisson image: there are import, ls, rm, tools");
  EXPECT_EQ(run({"image", "rm"}).error, "caisson image rm needs NAME; see caisson image rm --help");
}

TEST(Program, TakesNegativeNumbersForValues) {
  EXPECT_EQ(run({"exec", "--cpus", "-1", "--", "true"}).error,
            "--cpus: cpus must be greater than 0");
}

TEST(Program, CountsTheLastOfARepeatedOption) {
  EXPECT_EQ(run({"exec", "--memory", "x", "--memory", "64", "--", "true"}).error, "");
}

TEST(Program, ListsTheBackendsThereAre) {
  EXPECT_EQ(run({"exec", "--backend", "docker", "--", "true"}).error,
            "--backend: there is no backend \"docker\" in this build; there is: fake");
}

TEST(Program, TakesAnOptionOnceForEachTimeItIsNamed) {
  const Result result =
      run({"exec", "-e", "A=1", "-eB=2", "--env=C=[3,4]", "--", "sh", "-c", "echo $A $B $C"});
  EXPECT_EQ(result.out, "1 2 [3,4]\n") << result.error;
}

TEST(Program, KnowsThatErrorsAreWantedAsJson) {
  EXPECT_TRUE(Program({"exec", "--json", "--bad"}, backends()).wants_json());
  EXPECT_FALSE(Program({"exec", "--", "x", "--json"}, backends()).wants_json());
}

TEST(Program, KeepsOptionsOfSessionsApartFromThoseOfOneBox) {
  EXPECT_EQ(run({"exec", "--keep-session", "--", "true"}).error,
            "--keep-session: there is no session; name one with -s");
  EXPECT_EQ(run({"exec", "--request-id", "k", "--", "true"}).error,
            "--request-id: only a session knows ids; name one with -s");
  EXPECT_EQ(run({"exec", "-s", "a", "--request-id", "stream", "--", "true"}).error,
            "--request-id: must not be stream: the result could not be asked for by that name");
  EXPECT_EQ(run({"exec", "--url", "http://localhost:1", "--", "true"}).error,
            "--url: names a daemon, and only -s NAME needs one");
  EXPECT_EQ(run({"exec", "-s", "a", "--backend", "fake", "--", "true"}).error,
            "--backend: the daemon decides about it, not exec -s");
  EXPECT_EQ(run({"exec", "-s", " ", "--", "true"}).error,
            "session \" \": the name must not be empty");
}

TEST(Program, WantsNamesOrAllToRemove) {
  const std::string sentence =
      "rm: name the sessions to remove, or say --all; see caisson rm --help";
  EXPECT_EQ(run({"rm"}).error, sentence);
  EXPECT_EQ(run({"rm", "--all", "a"}).error, sentence);
}

TEST(Program, CopiesBetweenASessionAndUs) {
  const std::string sentence =
      "cp: one of the two must be NAME:PATH in a session, the other a path of yours; a path of "
      "yours with a colon is written ./PATH";
  EXPECT_EQ(run({"cp", "a", "b"}).error, sentence);
  EXPECT_EQ(run({"cp", "x:/a", "y:/b"}).error, sentence);
  EXPECT_EQ(run({"cp", "--json", "x:/a", "-"}).error,
            "--json: standard output is taken by the copy");
}

}  // namespace
}  // namespace caisson::cli
