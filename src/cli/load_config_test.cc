#include "cli/load_config.h"

#include <gmock/gmock.h>

#include <boost/json/serialize.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/str.h"
#include "base/temporary_directory.h"

namespace caisson::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// The sentence with which a file of this content is refused.
std::string refusal(const TemporaryDirectory& directory, const char* text,
                    const std::vector<std::string>& environment = {}) {
  replace_file(directory / "c.yaml", text);
  try {
    load_config(directory / "c.yaml", environment);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(LoadConfig, IsTheDefaultsWithoutAFile) {
  const LoadedConfig loaded = load_config(std::nullopt, {"PATH=/bin", "HOME=/root"});
  EXPECT_EQ(loaded.config, model::Config());
  EXPECT_EQ(loaded.file, std::nullopt);
  EXPECT_THAT(loaded.variables, IsEmpty());
}

TEST(LoadConfig, LaysTheEnvironmentOverTheFile) {
  const TemporaryDirectory directory;
  replace_file(directory / "c.yaml",
               "box:\n  local: {host_root: /file}\n  new_key: 1\ncaisson: {session_ttl_sec: 5}\n");
  const LoadedConfig loaded =
      load_config(directory / "c.yaml", {"BOX__LOCAL__HOST_ROOT=/env", "E2B_API_KEY=hidden"});
  EXPECT_EQ(loaded.config.box.local.host_root, "/env");
  EXPECT_EQ(loaded.config.daemon.session_ttl_sec, 5);
  EXPECT_THAT(loaded.variables, ElementsAre("BOX__LOCAL__HOST_ROOT", "E2B_API_KEY"));
  EXPECT_THAT(loaded.config.ignored_fields, ElementsAre("box.new_key"));
}

TEST(LoadConfig, TakesAnEmptyFile) {
  const TemporaryDirectory directory;
  replace_file(directory / "c.yaml", "# nothing yet\n");
  EXPECT_EQ(load_config(directory / "c.yaml", {}).config, model::Config());
}

TEST(LoadConfig, NamesThePlaceOfAFault) {
  const TemporaryDirectory directory;
  const std::string file = directory / "c.yaml";
  EXPECT_EQ(refusal(directory, "box:\n  backend: a\n  backend: b\n"),
            file + ":3:3: duplicate key \"backend\"");
  EXPECT_THAT(refusal(directory, "box: [\n"), HasSubstr(file + ":2:1: "));
  EXPECT_EQ(refusal(directory, "caisson: {lisen: {}}\n"), file + ": caisson.lisen: unknown field");
  EXPECT_EQ(refusal(directory, "- a\n"), file + ": must hold keys and values, such as \"box:\"");
  EXPECT_EQ(refusal(directory, "box:\n", {"CAISSON__LISTEN__PORT=http"}),
            "environment (CAISSON__LISTEN__PORT): caisson.listen.port: must be an integer");
  EXPECT_EQ(refusal(directory, "caisson: {pools: 7}\n", {"BOX__BACKEND=native"}),
            file + ": caisson.pools: must be true or false");
  EXPECT_EQ(refusal(directory, "caisson: {pools: 7}\n", {"CAISSON__POOLS=true"}), "");
  try {
    load_config(directory / "none.yaml", {});
    FAIL() << "was read";
  } catch (const SystemError& error) {
    EXPECT_EQ(error.error_number(), ENOENT);
    EXPECT_THAT(error.what(), HasSubstr("none.yaml"));
  }
}

TEST(FindConfigFile, LooksWhereTheUserKeepsConfiguration) {
  const TemporaryDirectory directory;
  std::filesystem::create_directories(directory / "caisson");
  std::filesystem::create_directories(directory / ".config/caisson");
  const std::vector<std::string> xdg = {"HOME=" + directory.path().native(),
                                        "XDG_CONFIG_HOME=" + directory.path().native()};
  const std::vector<std::string> home = {"HOME=" + directory.path().native(), "XDG_CONFIG_HOME="};
  EXPECT_EQ(find_config_file(std::nullopt, xdg, false), std::nullopt);
  EXPECT_EQ(find_config_file("/named.yaml", xdg, false), "/named.yaml");
  replace_file(directory / "caisson/caisson.yaml", "");
  replace_file(directory / ".config/caisson/caisson.yaml", "");
  EXPECT_EQ(find_config_file(std::nullopt, xdg, false), directory / "caisson/caisson.yaml");
  EXPECT_EQ(find_config_file(std::nullopt, home, false),
            directory / ".config/caisson/caisson.yaml");
  EXPECT_EQ(find_config_file(std::nullopt, {}, false), std::nullopt);
  EXPECT_THROW(find_config_file("", xdg, false), Error);
}

TEST(MaskedJson, HidesSecretsAndNothingElse) {
  model::Config config;
  config.box.e2b = {.api_key = "e2b_secret", .api_url = "https://x", .template_id = "t"};
  const std::string text = boost::json::serialize(masked_json(config));
  EXPECT_THAT(text, Not(HasSubstr("e2b_secret")));
  EXPECT_THAT(text, HasSubstr("\"api_key\":\"***\""));
  EXPECT_THAT(text, HasSubstr("https://x"));
  EXPECT_THAT(text, HasSubstr("\"token_required\":\"auto\""));
  EXPECT_EQ(masked_json(model::Config()), model::to_json(model::Config()));
}

}  // namespace
}  // namespace caisson::cli
