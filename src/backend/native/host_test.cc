#include "backend/native/host.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/str.h"

namespace caisson::backend::native {
namespace {

TEST(Passwd, HasTheUsersOfABox) {
  EXPECT_EQ(passwd_with_box_user(""),
            "root:x:0:0:root:/root:/usr/sbin/nologin\n"
            "box:x:1000:1000::/home/box:/bin/sh\n"
            "caisson:x:65533:65533::/:/usr/sbin/nologin\n"
            "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n");
}

TEST(Passwd, KeepsTheUsersOfAnImage) {
  EXPECT_EQ(passwd_with_box_user("root:x:0:0:root:/root:/bin/bash\n"
                                 "nobody:*:65534:65534:nobody:/nonexistent:/bin/false\n"),
            "root:x:0:0:root:/root:/bin/bash\n"
            "nobody:*:65534:65534:nobody:/nonexistent:/bin/false\n"
            "box:x:1000:1000::/home/box:/bin/sh\n"
            "caisson:x:65533:65533::/:/usr/sbin/nologin\n");
}

TEST(Passwd, LeavesAnIdToTheNameAnImageGaveIt) {
  const std::string base =
      "root:x:0:0::/root:/bin/sh\nnode:x:1000:1000::/home/node:/bin/bash\n"
      "nobody:x:65534:65534::/:/bin/false\n";
  EXPECT_EQ(passwd_with_box_user(base), base + "caisson:x:65533:65533::/:/usr/sbin/nologin\n");
}

TEST(Passwd, TakesNoNameTwice) {
  const std::string base = "box:x:42:42::/:/bin/false\n";
  const std::string file = passwd_with_box_user(base);
  EXPECT_EQ(file.find("box:x:1000"), std::string::npos) << file;
  EXPECT_TRUE(file.starts_with(base));
}

TEST(Passwd, EndsALineThatAnImageDidNot) {
  EXPECT_TRUE(passwd_with_box_user("root:x:0:0::/root:/bin/sh")
                  .starts_with("root:x:0:0::/root:/bin/sh\nbox:x:1000:"));
}

TEST(Passwd, SurvivesLinesThatAreNoEntries) {
  const std::string base = "# comment\n\n::::\nbroken\n";
  const std::string file = passwd_with_box_user(base);
  EXPECT_TRUE(file.starts_with(base));
  EXPECT_NE(file.find("\nbox:x:1000:1000::/home/box:/bin/sh\n"), std::string::npos);
}

TEST(Group, HasTheGroupsOfABox) {
  EXPECT_EQ(group_with_box_user(""),
            "root:x:0:\ntty:x:5:\nbox:x:1000:\ncaisson:x:65533:\nnogroup:x:65534:\n");
}

TEST(GeneratedFiles, SayNothingAboutTheHost) {
  const Host host{.hostname = "box", .resolv_conf = "nameserver 192.0.2.1\n"};
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"/etc/passwd", passwd_with_box_user("")},
      {"/etc/group", group_with_box_user("")},
      {"/etc/hosts", "127.0.0.1 localhost box\n::1 localhost\n"},
      {"/etc/hostname", "box\n"},
      {"/etc/resolv.conf", "nameserver 192.0.2.1\n"},
      {"/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"},
      {"/etc/profile",
       "for i in /etc/profile.d/*.sh; do\n"
       "  case $i in */bash_completion.sh) [ \"${BASH_VERSION-}\" ] || continue ;; esac\n"
       "  if [ -r \"$i\" ]; then . \"$i\"; fi\n"
       "done\n"
       "unset i\n"},
  };
  EXPECT_EQ(generated_files(host), expected);
}

TEST(InspectHost, FindsTheSystemDirectories) {
  const Host host = inspect_host();
  ASSERT_FALSE(host.root_entries.empty());
  EXPECT_EQ(host.root_entries[0], (Host::RootEntry{.path = "/usr", .link = ""}));
  std::set<std::string> seen;
  for (const Host::RootEntry& entry : host.root_entries) {
    EXPECT_TRUE(seen.insert(entry.path).second) << entry.path;
    if (entry.link.empty()) {
      EXPECT_FALSE(std::filesystem::is_symlink(entry.path)) << entry.path;
    } else {
      EXPECT_EQ(std::filesystem::read_symlink(entry.path), entry.link);
    }
  }
}

TEST(InspectHost, KnowsItsOwnNamespaces) {
  const Host host = inspect_host();
  const char* const names[] = {"user", "mnt", "pid", "ipc", "uts", "cgroup", "net"};
  ASSERT_EQ(host.namespaces.size(), std::size(names));
  for (std::size_t i = 0; i < std::size(names); ++i) {
    struct stat info {};
    ASSERT_EQ(::stat(str("/proc/self/ns/", names[i]).c_str(), &info), 0);
    EXPECT_EQ(host.namespaces[i], info.st_ino) << names[i];
  }
}

TEST(InspectHost, TakesNoSecretsFromEtc) {
  const Host host = inspect_host();
  std::vector<std::string> paths = host.etc_directories;
  for (const auto& [path, content] : host.etc_files) paths.push_back(path);
  const std::set<std::string> generated = {"/etc/passwd",   "/etc/group",       "/etc/hosts",
                                           "/etc/hostname", "/etc/resolv.conf", "/etc/profile"};
  for (const std::string& path : paths) {
    EXPECT_TRUE(path.starts_with("/etc/") && path.size() > 5) << path;
    EXPECT_FALSE(generated.contains(path)) << path;
    for (const char* secret : {"/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/ssh",
                               "/etc/ssl/private", "/etc/machine-id", "/etc/krb5.keytab"}) {
      EXPECT_FALSE(path.starts_with(secret)) << path;
      EXPECT_FALSE(std::string(secret).starts_with(path + "/")) << path << " holds " << secret;
    }
  }
}

TEST(InspectHost, GivesBoxesNoMoreThanItMay) {
  const Host host = inspect_host();
  EXPECT_GT(host.max_open_files, 0u);
  EXPECT_LE(host.max_open_files, 4096u);
  EXPECT_GT(host.max_pending_signals, 0u);
  EXPECT_LE(host.max_pending_signals, 4096u);
  EXPECT_LE(host.max_message_queue_bytes, 819200u);
  EXPECT_LE(host.max_core_bytes, 1u);
}

TEST(InspectHost, IsPrivilegedOnlyAsRoot) {
  if (::geteuid() != 0) EXPECT_FALSE(inspect_host().privileged);
  EXPECT_EQ(inspect_host().hostname, "box");
}

TEST(MountsInside, FindsWhatIsMountedInRootEntriesOuterMountsFirst) {
  const std::vector<Host::RootEntry> entries = {{.path = "/usr", .link = ""},
                                                {.path = "/lib", .link = "usr/lib"}};
  EXPECT_EQ(mounts_inside("1 0 8:1 / / rw - ext4 /dev/a rw\n"
                          "5 1 8:2 / /usr rw - ext4 /dev/b rw\n"
                          "6 5 8:4 / /usr/local/share rw - ext4 /dev/d rw\n"
                          "7 5 8:3 / /usr/local rw - ext4 /dev/c rw\n"
                          "8 5 8:3 / /usr/local rw - ext4 /dev/c rw\n"
                          "9 5 8:3 / /usr/with\\040space rw - ext4 /dev/c rw\n"
                          "10 1 8:5 / /usrlocal rw - ext4 /dev/e rw\n"
                          "11 1 8:5 / /lib/x rw - ext4 /dev/e rw\n",
                          entries),
            (std::vector<std::string>{"/usr/local", "/usr/local/share"}));
}

}  // namespace
}  // namespace caisson::backend::native
