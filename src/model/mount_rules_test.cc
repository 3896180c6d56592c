#include "model/mount_rules.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace caisson::model {
namespace {

TEST(MountRefusal, NeverShowsWhatRunsTheHost) {
  for (const char* path : {"/etc", "/proc", "/sys", "/dev", "/root", "/boot", "/run", "/var/run",
                           "/var/lib/docker", "/var/lib/containerd", "/var/lib/containers"}) {
    for (const MountMode mode : {MountMode::ro, MountMode::rw}) {
      const std::string why = std::string(path) + " of the host is never shown to a box";
      EXPECT_EQ(mount_refusal(path, mode, {}), why);
      EXPECT_EQ(mount_refusal(std::string(path) + "/below/it", mode, {}), why);
    }
  }
}

TEST(MountRefusal, NeverShowsADirectoryAboveOne) {
  EXPECT_EQ(mount_refusal("/", MountMode::ro, {}),
            "it contains /etc, which is never shown to a box");
  EXPECT_EQ(mount_refusal("/var", MountMode::ro, {}),
            "it contains /var/run, which is never shown to a box");
  EXPECT_EQ(mount_refusal("/var/lib", MountMode::ro, {}),
            "it contains /var/lib/docker, which is never shown to a box");
}

TEST(MountRefusal, ComparesWholeNames) {
  for (const char* path : {"/etcetera", "/home/etc", "/rooted/x", "/running", "/var/lib/dockers",
                           "/srv/proc", "/bootstrap", "/developer"}) {
    EXPECT_EQ(mount_refusal(path, MountMode::rw, {}), "") << path;
  }
}

TEST(MountRefusal, KeepsSystemProgramsReadOnly) {
  for (const char* path : {"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"}) {
    EXPECT_EQ(mount_refusal(path, MountMode::ro, {}), "") << path;
    const std::string why = std::string(path) + " can be mounted read-only at most";
    EXPECT_EQ(mount_refusal(path, MountMode::rw, {}), why);
    EXPECT_EQ(mount_refusal(std::string(path) + "/share", MountMode::rw, {}), why);
  }
  EXPECT_EQ(mount_refusal("/usrlocal", MountMode::rw, {}), "");
}

TEST(MountRefusal, ShowsAWorkspaceWhatIsItsOwn) {
  const MountRules rules{.protected_paths = {},
                         .roots = {"/srv"},
                         .shared = {"/srv/box/default", "/srv/box/skills"},
                         .name_space = "ws-1"};
  for (const char* own :
       {"/srv/box/default/tenants/ws-1", "/srv/box/default/tenants/ws-1/a/b",
        "/srv/box/skills/tenants/ws-1/skill", "/srv/elsewhere", "/srv/box/other"}) {
    EXPECT_EQ(mount_refusal(own, MountMode::rw, rules), "") << own;
    EXPECT_TRUE(hidden_below(own, rules).empty()) << own;
  }
  for (const char* others : {"/srv/box/default/tenants/ws-2", "/srv/box/default/tenants/ws-10/x",
                             "/srv/box/skills/tenants/ws-2/skill", "/srv/box/default/tenants"}) {
    EXPECT_EQ(mount_refusal(others, MountMode::ro, rules), "it belongs to another workspace");
  }
  for (const char* nobodys : {"/srv/box/default", "/srv/box/skills/skill", "/srv/box/default/x"}) {
    EXPECT_EQ(mount_refusal(nobodys, MountMode::ro, rules), "it does not belong to this workspace");
  }
  EXPECT_EQ(mount_refusal("/srv/box", MountMode::ro, rules),
            "it contains /srv/box/default/tenants, where other workspaces have theirs");
}

TEST(MountRefusal, FindsAWorkspacesOwnAlsoWhereOneSharedDirectoryIsInAnother) {
  const MountRules rules{.protected_paths = {},
                         .roots = {},
                         .shared = {"/srv/box", "/srv/box/skills"},
                         .name_space = "ws-1"};
  EXPECT_EQ(mount_refusal("/srv/box/skills/tenants/ws-1/x", MountMode::rw, rules), "");
  EXPECT_NE(mount_refusal("/srv/box/skills/tenants/ws-2/x", MountMode::rw, rules), "");
}

TEST(MountRefusal, ShowsNobodyElseWhatIsAWorkspaces) {
  const MountRules rules{
      .protected_paths = {}, .roots = {}, .shared = {"/srv/box/default", "/srv/box/skills"}};
  for (const char* path : {"/srv/box/default/tenants", "/srv/box/skills/tenants/ws-2/skill"}) {
    EXPECT_EQ(mount_refusal(path, MountMode::ro, rules), "it belongs to another workspace");
  }
  using Paths = std::vector<std::string>;
  EXPECT_EQ(mount_refusal("/srv/box", MountMode::rw, rules), "");
  EXPECT_EQ(hidden_below("/srv/box", rules),
            (Paths{"/srv/box/default/tenants", "/srv/box/skills/tenants"}));
  EXPECT_EQ(hidden_below("/srv/box/default", rules), (Paths{"/srv/box/default/tenants"}));
  EXPECT_EQ(hidden_below("/srv/box/default/x", rules), Paths{});
}

TEST(MountRefusal, ProtectsOurOwnState) {
  const MountRules protected_paths{.protected_paths = {"/srv/caisson/state"}, .roots = {}};
  EXPECT_EQ(mount_refusal("/srv/caisson/state", MountMode::ro, protected_paths),
            "/srv/caisson/state of the host is never shown to a box");
  EXPECT_EQ(mount_refusal("/srv/caisson/state/images", MountMode::ro, protected_paths),
            "/srv/caisson/state of the host is never shown to a box");
  EXPECT_EQ(mount_refusal("/srv", MountMode::ro, protected_paths),
            "it contains /srv/caisson/state, which is never shown to a box");
  EXPECT_EQ(mount_refusal("/srv/caisson/work", MountMode::rw, protected_paths), "");
}

TEST(MountRefusal, KeepsToTheRoots) {
  const MountRules rules{.protected_paths = {}, .roots = {"/srv/a", "/srv/b"}};
  EXPECT_EQ(mount_refusal("/srv/a", MountMode::rw, rules), "");
  EXPECT_EQ(mount_refusal("/srv/b/below", MountMode::ro, rules), "");
  const std::string outside = "it is outside allowed_mount_roots: /srv/a, /srv/b";
  EXPECT_EQ(mount_refusal("/srv/ab", MountMode::ro, rules), outside);
  EXPECT_EQ(mount_refusal("/srv", MountMode::ro, rules), outside);
  EXPECT_EQ(mount_refusal("/etc/ssl", MountMode::ro, rules),
            "/etc of the host is never shown to a box");
}

}  // namespace
}  // namespace caisson::model
