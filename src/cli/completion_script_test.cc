#include "cli/completion_script.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace caisson::cli {
namespace {

using testing::HasSubstr;

CompletedCommand program() {
  CompletedCommand run{.name = "exec", .description = "Run [it]: now", .runs_command = true};
  run.options.push_back({.names = {"-e", "--env"},
                         .description = "the caller's",
                         .value_name = "K=V",
                         .value = ValueKind::text,
                         .repeatable = true});
  run.options.push_back({.names = {"--network"},
                         .description = "how",
                         .value_name = "on|off",
                         .value = ValueKind::choice,
                         .choices = {"on", "off"}});
  CompletedCommand remove{.name = "rm", .description = "Remove"};
  remove.arguments.push_back(
      {.value_name = "IMAGE", .value = ValueKind::image, .repeatable = true});
  CompletedCommand image{.name = "image", .description = "Images", .subcommands = {remove}};
  CompletedCommand top{.name = "caisson", .subcommands = {run, image}};
  top.options.push_back({.names = {"-h", "--help"}, .description = "Help"});
  return top;
}

TEST(BashCompletion, KnowsSubcommandsOptionsAndValues) {
  const std::string script = bash_completion(program());
  EXPECT_THAT(script, HasSubstr("'caisson image rm') path='caisson image rm' ;;"));
  EXPECT_THAT(script, HasSubstr("'caisson exec --network') _caisson_reply -W 'on off'; return ;;"));
  EXPECT_THAT(script, HasSubstr("'caisson exec -e' | 'caisson exec --env') :; return ;;"));
  EXPECT_THAT(script, HasSubstr("_caisson_reply -W '-e --env --network --'"));
  EXPECT_THAT(script, HasSubstr("else _caisson_reply -W 'exec image'; fi ;;"));
  EXPECT_THAT(script, HasSubstr("caisson image ls --quiet"));
}

TEST(ZshCompletion, EscapesDescriptions) {
  const std::string script = zsh_completion(program());
  EXPECT_THAT(script, HasSubstr(R"('*'{-e,--env}'[the caller'\''s]:K=V: ')"));
  EXPECT_THAT(script, HasSubstr("--network'[how]:on|off:(on off)'"));
  EXPECT_THAT(script, HasSubstr(R"(exec\:"Run \[it\]\: now")"));
  EXPECT_THAT(script, HasSubstr("'(-h --help)'{-h,--help}'[Help]'"));
  EXPECT_THAT(script, HasSubstr("'*::argument:_normal'"));
}

TEST(FishCompletion, TiesOptionsToTheirSubcommand) {
  const std::string script = fish_completion(program());
  EXPECT_THAT(script, HasSubstr("complete -c caisson -n '__caisson_at \"caisson exec\"' -l network "
                                "-x -a 'on off' -d 'how'\n"));
  EXPECT_THAT(script, HasSubstr("-s e -l env -x -d 'the caller'\\''s'\n"));
  EXPECT_THAT(script, HasSubstr("'__caisson_at \"caisson image\"' -x -a rm -d 'Remove'\n"));
}

}  // namespace
}  // namespace caisson::cli
