#include "cli/settings.h"

#include <gtest/gtest.h>

#include <map>

#include "base/error.h"

namespace caisson::cli {
namespace {

Environment environment(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const std::string& name) -> std::optional<std::string> {
    const auto found = values.find(name);
    if (found == values.end()) return std::nullopt;
    return found->second;
  };
}

TEST(StateDirectory, IsTheOptionBeforeTheVariableBeforeTheDefault) {
  const Environment named = environment({{"CAISSON_STATE", "/env"}, {"HOME", "/home/me"}});
  EXPECT_EQ(state_directory("/option", named, true), "/option");
  EXPECT_EQ(state_directory(std::nullopt, named, true), "/env");
  const Environment plain = environment({{"HOME", "/home/me"}, {"CAISSON_STATE", ""}});
  EXPECT_EQ(state_directory(std::nullopt, plain, true), "/var/lib/caisson");
  EXPECT_EQ(state_directory(std::nullopt, plain, false), "/home/me/.local/state/caisson");
}

TEST(StateDirectory, IsTheConfiguredOneUnlessTheCallerNamesAnother) {
  const Environment plain = environment({{"HOME", "/home/me"}});
  const Environment named = environment({{"CAISSON_STATE", "/env"}, {"HOME", "/home/me"}});
  EXPECT_EQ(state_directory(std::nullopt, plain, true, "/srv/x/../state"), "/srv/state");
  EXPECT_EQ(state_directory(std::nullopt, named, true, "/srv/state"), "/env");
  EXPECT_EQ(state_directory("/option", named, true, "/srv/state"), "/option");
}

TEST(StateDirectory, FollowsTheUsersPlaceForState) {
  const Environment user = environment({{"HOME", "/home/me"}, {"XDG_STATE_HOME", "/xdg"}});
  EXPECT_EQ(state_directory(std::nullopt, user, false), "/xdg/caisson");
  // The specification of that variable says that a relative path is to be ignored.
  const Environment relative = environment({{"HOME", "/home/me"}, {"XDG_STATE_HOME", "xdg"}});
  EXPECT_EQ(state_directory(std::nullopt, relative, false), "/home/me/.local/state/caisson");
}

TEST(StateDirectory, IsAbsolute) {
  EXPECT_TRUE(state_directory("state", environment({}), true).is_absolute());
}

TEST(StateDirectory, AsksForTheOptionWhereThereIsNoHome) {
  EXPECT_THROW(state_directory(std::nullopt, environment({}), false), Error);
  EXPECT_THROW(state_directory("", environment({{"HOME", "/h"}}), false), Error);
}

TEST(AllowedMissing, JoinsOptionsAndTheVariable) {
  const Environment caller = environment({{"CAISSON_ALLOW_MISSING", "cpu_limit, pids_limit,"}});
  EXPECT_EQ(allowed_missing({"seccomp,cpu_limit", "memory_limit"}, caller),
            (std::set<model::Layer>{model::Layer::seccomp, model::Layer::memory_limit,
                                    model::Layer::pids_limit, model::Layer::cpu_limit}));
  EXPECT_TRUE(allowed_missing({}, environment({})).empty());
}

TEST(AllowedMissing, ListsTheLayersWhenOneIsUnknown) {
  const auto fault = [](const std::vector<std::string>& options, const Environment& caller) {
    try {
      allowed_missing(options, caller);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("(accepted)");
  };
  const std::string sentence = fault({"secomp"}, environment({}));
  EXPECT_TRUE(sentence.starts_with(
      "--allow-missing: there is no isolation layer \"secomp\"; the layers are user_namespace, "));
  EXPECT_TRUE(sentence.ends_with(", guest_protection"));
  EXPECT_TRUE(fault({}, environment({{"CAISSON_ALLOW_MISSING", "x"}}))
                  .starts_with("CAISSON_ALLOW_MISSING: there is no isolation layer \"x\""));
}

}  // namespace
}  // namespace caisson::cli
