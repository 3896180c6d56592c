#include "backend/native/tool_commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/tools.h"

namespace caisson::backend::native {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::vector<std::string> names(const std::map<std::string, std::string>& host) {
  std::vector<std::string> names;
  for (const auto& [name, script] : tool_commands(host, "set")) names.push_back(name);
  return names;
}

std::string script(const std::map<std::string, std::string>& host, const std::string& wanted) {
  for (const auto& [name, text] : tool_commands(host, "set")) {
    if (name == wanted) return text;
  }
  return "";
}

TEST(ToolCommands, AreThoseThatTheHostDoesNotHave) {
  EXPECT_THAT(names({}), ElementsAre("uv", "uvx", "node", "npm", "npx"));
  EXPECT_THAT(names({{"python3", "/usr/bin/python3"}}),
              ElementsAre("python", "pip", "uv", "uvx", "node", "npm", "npx"));
  EXPECT_THAT(names({{"python3", "/usr/bin/python3"},
                     {"pip", "/usr/bin/pip"},
                     {"node", "/usr/bin/node"},
                     {"uv", "/usr/local/bin/uv"}}),
              ElementsAre("python", "uvx", "npm", "npx"));
  std::map<std::string, std::string> all;
  for (const char* name : kHostCommands) all[name] = std::string("/usr/bin/") + name;
  EXPECT_TRUE(names(all).empty());
}

TEST(ToolCommands, RunWhatTheHostHasByAnotherName) {
  const std::map<std::string, std::string> host = {{"python3", "/usr/bin/python3"},
                                                   {"pip3", "/usr/bin/pip3"}};
  EXPECT_EQ(script(host, "python"),
            "#!/bin/sh\n# runs /usr/bin/python3\nexec /usr/bin/python3 \"$@\"\n");
  EXPECT_EQ(script(host, "pip"), "#!/bin/sh\n# runs /usr/bin/pip3\nexec /usr/bin/pip3 \"$@\"\n");
}

TEST(ToolCommands, SayWhatToRunWhenTheyWereNotFetched) {
  for (const auto& [name, text] : tool_commands({{"python3", "/usr/bin/python3"}}, "set")) {
    if (name == "python") continue;
    EXPECT_TRUE(model::is_tool(name));
    EXPECT_TRUE(text.starts_with("#!/bin/sh\n# runs /opt/caisson/tools/set/")) << text;
    EXPECT_THAT(text, HasSubstr("caisson image tools")) << name;
    EXPECT_THAT(text, HasSubstr("exit 127\n")) << name;
    EXPECT_THAT(text, Not(HasSubstr("`"))) << "a shell would run it";
  }
}

}  // namespace
}  // namespace caisson::backend::native
