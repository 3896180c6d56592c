#include "backend/native/plan.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>

#include "backend/native/tool_commands.h"
#include "base/error.h"
#include "base/str.h"
#include "wire/guest.h"

namespace caisson::backend::native {
namespace {

using wire::Step;

std::string octal(std::uint32_t mode) {
  char text[16];
  std::snprintf(text, sizeof text, "0%o", mode);
  return text;
}

// "root" and "payload" rather than numbers: plans are read by people.
std::string id(std::uint32_t number) {
  if (number == kFileOwnersBase) return "root";
  if (number == box_ids(2, 3).payload) return "payload";
  if (number == box_ids(2, 3).guest) return "guest";
  return std::to_string(number);
}

std::string fd(wire::FdIndex index) {
  return index == wire::kNoFd ? "none" : std::to_string(index);
}

// What describe() leaves out.
struct Rest {
  std::string operator()(const wire::EnterCgroups& s) const {
    std::string text;
    for (const wire::FdIndex index : s.fds) text += str(" fd ", fd(index));
    return text;
  }
  std::string operator()(const wire::NewRoot& s) const { return str(" of ", id(s.owner)); }
  std::string operator()(const wire::BindRoot& s) const { return str(" idmap ", fd(s.idmap)); }
  std::string operator()(const wire::MakeDirectory& s) const {
    return str(" ", octal(s.mode), " of ", id(s.owner));
  }
  std::string operator()(const wire::MakeFile& s) const {
    return str(" ", octal(s.mode), " of ", s.content.size(), " bytes");
  }
  std::string operator()(const wire::BindHost& s) const {
    std::string text = s.idmap == wire::kNoFd ? "" : str(" idmap ", fd(s.idmap));
    if (s.idmap_optional) text += " if possible";
    if (s.expected_inode != 0) text += str(" inode ", s.expected_device, ":", s.expected_inode);
    return text;
  }
  std::string operator()(const wire::MakeTmpfs& s) const {
    return str(" ", s.inodes, " inodes ", octal(s.mode), " of ", id(s.owner));
  }
  std::string operator()(const wire::AttachMount& s) const { return str(" fd ", fd(s.fd)); }
  std::string operator()(const wire::BindScratch& s) const {
    return str(" ", s.name, " ", octal(s.mode), " of ", id(s.owner));
  }
  std::string operator()(const wire::MountOverlay& s) const {
    return str(" lower ", fd(s.lower), " ", s.source, " of ", id(s.owner),
               s.for_ordinary_user ? " userxattr" : "");
  }
  std::string operator()(const wire::MountTerminals& s) const { return str(" group ", s.group); }
  std::string operator()(const wire::PivotRoot& s) const {
    return s.keep_host_at.empty() ? "" : str(" keeping the host at ", s.keep_host_at);
  }
  std::string operator()(const wire::OwnInodes& s) const {
    std::string text;
    for (const std::string& file : s.files) text += str(" and ", file);
    return str(text, s.optional ? " if possible" : "");
  }
  std::string operator()(const wire::EnterUserNamespace& s) const {
    return str(" gid ", s.gid, " fd ", fd(s.fd));
  }
  template <typename Other>
  std::string operator()(const Other&) const {
    return "";
  }
};

// A plan as text, one step a line.
std::string text(const wire::Plan& plan) {
  std::string lines;
  for (const Step& step : plan) lines += str(describe(step), std::visit(Rest{}, step), "\n");
  return lines;
}

// What the process begins with, what finishes it.
std::string text(const BoxPlan& plan) {
  return str(text(plan.launch.plan), "--\n", text(plan.finish.plan));
}

// A host that lacks none.
std::map<std::string, std::string> all_commands() {
  std::map<std::string, std::string> commands;
  for (const char* name : kHostCommands) commands[name] = str("/usr/bin/", name);
  return commands;
}

Host root_host() {
  return {.privileged = true,
          .root_entries = {{.path = "/usr", .link = ""},
                           {.path = "/bin", .link = "usr/bin"},
                           {.path = "/lib64", .link = ""}},
          .etc_directories = {"/etc/ssl/certs"},
          .etc_files = {{"/etc/localtime", "TZif"}},
          .commands = all_commands(),
          .masked_paths = {"/proc/cmdline", "/proc/irq"},
          .resolv_conf = "nameserver 192.0.2.1\n",
          .namespaces = {1, 2, 3, 4, 5, 6, 7},
          .max_open_files = 4096,
          .max_pending_signals = 2048,
          .max_message_queue_bytes = 65536,
          .max_core_bytes = 1};
}

Host user_host() {
  Host host = root_host();
  host.privileged = false;
  return host;
}

const RootImage kImage{.rootfs = "/var/lib/caisson/images/py/rootfs",
                       .passwd = "root:x:0:0::/root:/bin/sh\n",
                       .group = "root:x:0:\n"};

// Descriptor 0 is the control socket.
BoxRequest request() {
  return {.scratch_bytes = 256u << 20,
          .scratch_inodes = 65536,
          .ids = box_ids(2, 3),
          .enter_cgroups = {4, 5},
          .leave_cgroups = {6, 7},
          .cgroup_controllers = {"memory", "pids"},
          .user_namespace = 1,
          .filter = std::string(3 * 8, 'f')};
}

// What every box does first and last, as root.
constexpr const char* kBegin =
    "enter the cgroups fd 4 fd 5\n"
    "new cgroup namespace\n";
constexpr const char* kScratch = "scratch of 268435456 bytes and 65536 inodes\n";
constexpr const char* kPlaces =
    "scratch at /tmp (rw,nosuid,nodev) tmp 01777 of payload\n"
    "scratch at /dev/shm (rw,nosuid,nodev) shm 01777 of payload\n"
    "scratch at /home/box (rw,nosuid,nodev) home 0755 of payload\n";
constexpr const char* kWorkspace =
    "scratch at /workspace (rw,nosuid,nodev) workspace 0755 of payload\n";
constexpr const char* kTerminals = "terminals at /dev/pts group 1879048197\n";
constexpr const char* kProc =
    "proc at /proc\n"
    "mask /proc/cmdline\n"
    "mask /proc/irq\n"
    "make /proc/sys read-only\n";
constexpr const char* kNames =
    "set hostname box\n"
    "bring lo up\n";

// Of every box in a shared root.
constexpr const char* kOwnInodes = "own inodes for /usr /lib64\n";
const std::string kBeginning = str(kOwnInodes, kTerminals, kProc, kNames, "--\n");
constexpr const char* kHandover = "hand over the mounts\n";  // of an ordinary user
constexpr const char* kLimits =
    "enter the cgroups fd 6 fd 7\n"
    "resource limit 7 = 4096\n"
    "resource limit 8 = 65536\n"
    "resource limit 11 = 2048\n"
    "resource limit 12 = 65536\n"
    "resource limit 4 = 1\n";
constexpr const char* kLockdown =
    "enter the user namespace as 65533 gid 65533 fd 1\n"
    "drop privileges\n"
    "install a system call filter of 3 instructions\n";
constexpr const char* kUserLockdown =
    "enter the user namespace as 1000 gid 1000 fd 1\n"
    "drop privileges\n"
    "install a system call filter of 3 instructions\n";

constexpr const char* kDevices =
    "bind /dev/null at /dev/null (rw,nosuid,noexec)\n"
    "bind /dev/zero at /dev/zero (rw,nosuid,noexec)\n"
    "bind /dev/full at /dev/full (rw,nosuid,noexec)\n"
    "bind /dev/random at /dev/random (rw,nosuid,noexec)\n"
    "bind /dev/urandom at /dev/urandom (rw,nosuid,noexec)\n"
    "bind /dev/tty at /dev/tty (rw,nosuid,noexec)\n"
    "make symlink /dev/fd to /proc/self/fd\n"
    "make symlink /dev/stdin to /proc/self/fd/0\n"
    "make symlink /dev/stdout to /proc/self/fd/1\n"
    "make symlink /dev/stderr to /proc/self/fd/2\n"
    "make symlink /dev/ptmx to pts/ptmx\n";
constexpr const char* kGeneratedFiles =
    "make file /etc/passwd 0644 of 177 bytes\n"
    "make file /etc/group 0644 of 65 bytes\n"
    "make file /etc/hosts 0644 of 38 bytes\n"
    "make file /etc/hostname 0644 of 4 bytes\n"
    "make file /etc/resolv.conf 0644 of 21 bytes\n"
    "make file /etc/nsswitch.conf 0644 of 44 bytes\n"
    "make file /etc/profile 0644 of 158 bytes\n";

// The directories of a root of its own, all of one owner.
std::string directories_of(const std::string& owner) {
  std::string lines;
  for (const char* path : {"/home", "/home/box", "/mnt", "/opt", "/opt/langbot-artifacts", "/proc",
                           "/run", "/srv", "/tmp", "/var", "/var/lib", "/workspace"}) {
    lines += str("make directory ", path, " 0755 of ", owner, "\n");
  }
  return lines;
}

// The same lines for an ordinary user, who has one id to give.
std::string for_user(std::string lines) {
  for (const std::string_view name : {"of payload", "of root"}) {
    for (std::size_t at = lines.find(name); at != std::string::npos; at = lines.find(name)) {
      lines.replace(at, name.size(), "of 0");
    }
  }
  return lines;
}

std::string host_template(const std::string& idmap, const std::string& tools = "") {
  std::string lines = "new root of 4194304 bytes and 4096 inodes of root\n";
  for (const char* path :
       {"/dev", "/dev/pts", "/dev/shm", "/etc", "/home", "/home/box", "/mnt", "/opt",
        "/opt/langbot-artifacts", "/run", "/srv", "/tmp", "/var", "/var/lib", "/workspace"}) {
    lines += str("make directory ", path, " 0755 of root\n");
  }
  return str(lines,
             "make directory /root 0700 of root\n"
             "make directory /proc 00 of root\n"
             "make symlink /var/tmp to /tmp\n"
             "make symlink /var/run to /run\n"
             "bind /usr at /usr (ro,nosuid,nodev)",
             idmap,
             " if possible\n"
             "make symlink /bin to usr/bin\n"
             "bind /lib64 at /lib64 (ro,nosuid,nodev)",
             idmap,
             " if possible\n"
             "make directory /opt/caisson 0755 of root\n"
             "make directory /opt/caisson/bin 0755 of root\n"
             "make directory /opt/caisson/tools 0755 of root\n",
             tools, "bind /etc/ssl/certs at /etc/ssl/certs (ro,nosuid,nodev,noexec)", idmap,
             " if possible\n"
             "make file /etc/localtime 0644 of 4 bytes\n"
             "make symlink /etc/mtab to /proc/self/mounts\n",
             kGeneratedFiles, kDevices);
}

std::string image_template(const std::string& idmap) {
  return str("bind /var/lib/caisson/images/py/rootfs as the root (ro,nosuid,nodev) idmap ", idmap,
             "\n"
             "tmpfs of 4194304 bytes at /dev 4096 inodes 0755 of root\n"
             "make directory /dev/pts 0755 of root\n"
             "make directory /dev/shm 0755 of root\n"
             "make directory /dev/.files 0755 of root\n"
             "make file /dev/.files/passwd 0644 of 163 bytes\n"
             "bind /dev/.files/passwd at /etc/passwd (ro,nosuid,nodev,noexec)\n"
             "make file /dev/.files/group 0644 of 65 bytes\n"
             "bind /dev/.files/group at /etc/group (ro,nosuid,nodev,noexec)\n"
             "make file /dev/.files/hosts 0644 of 38 bytes\n"
             "bind /dev/.files/hosts at /etc/hosts (ro,nosuid,nodev,noexec)\n"
             "make file /dev/.files/resolv.conf 0644 of 21 bytes\n"
             "bind /dev/.files/resolv.conf at /etc/resolv.conf (ro,nosuid,nodev,noexec)\n",
             kDevices);
}

TEST(PlanTemplate, ShowsTheHostsProgramsAndLittleElse) {
  EXPECT_EQ(text(plan_template(root_host(), {}, 0)),
            str(host_template(" idmap 0"), "make / read-only\nchange the root\n"));
}

TEST(PlanTemplate, KeepsTheHostReachableForAnOrdinaryUser) {
  EXPECT_EQ(text(plan_template(user_host(), {}, wire::kNoFd)),
            str(for_user(host_template("")),
                "make directory /.host 0755 of 0\n"
                "make / read-only\n"
                "change the root keeping the host at /.host\n"));
}

const RootImage kHostWithTools{
    .tools = ShownTools{
        .path = "/var/lib/caisson/tools/shown", .device = 5, .inode = 77, .set = "uv-1"}};

TEST(PlanTemplate, GivesAHostThatLacksCommandsThoseOfOurs) {
  Host bare = root_host();
  bare.commands = {{"python3", "/usr/bin/python3"}, {"node", "/usr/bin/node"}};
  std::string lines;
  for (const auto& [name, script] : tool_commands(bare.commands, "uv-1")) {
    lines += str("make file /opt/caisson/bin/", name, " 0755 of ", script.size(), " bytes\n");
  }
  EXPECT_NE(lines.find("/opt/caisson/bin/python "), std::string::npos);
  EXPECT_NE(lines.find("/opt/caisson/bin/npx "), std::string::npos);
  EXPECT_EQ(lines.find("/opt/caisson/bin/node "), std::string::npos) << "the host has one";
  lines +=
      "bind /var/lib/caisson/tools/shown at /opt/caisson/tools (ro,nosuid,nodev) idmap 0 if "
      "possible inode 5:77\n";
  EXPECT_EQ(text(plan_template(bare, kHostWithTools, 0)),
            str(host_template(" idmap 0", lines), "make / read-only\nchange the root\n"));
}

TEST(PlanBox, GivesInodesOfItsOwnToTheTools) {
  BoxRequest box = request();
  box.image = kHostWithTools;
  EXPECT_TRUE(text(plan_box(root_host(), box))
                  .starts_with("own inodes for /usr /lib64 /opt/caisson/tools\n"));
  const auto& proven = plan_box(root_host(), box).finish.guest.own_inode_paths;
  EXPECT_EQ(proven, (std::vector<std::string>{"/usr", "/lib64", "/opt/caisson/tools"}));
  box.read_only_root = false;
  EXPECT_NE(text(plan_box(root_host(), box)).find("own inodes for /lib64 /opt/caisson/tools\n"),
            std::string::npos);
}

TEST(PlanTemplate, LaysFilesOfTheBoxOverAnImage) {
  EXPECT_EQ(text(plan_template(root_host(), kImage, 0)),
            str(image_template("0"), "make /dev read-only\nchange the root\n"));
  EXPECT_EQ(text(plan_template(user_host(), kImage, wire::kNoFd)),
            str(for_user(image_template("none")),
                "tmpfs of 4194304 bytes at /run 16 inodes 0755 of 0\n"
                "make directory /run/.host 0755 of 0\n"
                "make /run read-only\n"
                "make /dev read-only\n"
                "change the root keeping the host at /run/.host\n"));
}

TEST(PlanTemplate, WritesTheFilesOfABox) {
  const Host host = root_host();
  std::vector<std::pair<std::string, std::string>> written;
  for (const Step& step : plan_template(host, {}, 0)) {
    if (const auto* file = std::get_if<wire::MakeFile>(&step)) {
      written.emplace_back(file->target, file->content);
    }
  }
  std::vector<std::pair<std::string, std::string>> expected = host.etc_files;
  for (const auto& file : generated_files(host)) expected.push_back(file);
  EXPECT_EQ(written, expected);
}

TEST(PlanTemplate, AddsTheBoxUserToTheUsersOfAnImage) {
  for (const Step& step : plan_template(root_host(), kImage, 0)) {
    const auto* file = std::get_if<wire::MakeFile>(&step);
    if (file == nullptr) continue;
    if (file->target == "/dev/.files/passwd") {
      EXPECT_EQ(file->content, passwd_with_box_user(kImage.passwd));
    }
    if (file->target == "/dev/.files/group") {
      EXPECT_EQ(file->content, group_with_box_user(kImage.group));
    }
  }
}

TEST(PlanBox, MakesTheDefaultBox) {
  const BoxPlan plan = plan_box(root_host(), request());
  EXPECT_TRUE(plan.launch.new_network);
  EXPECT_EQ(text(plan), str(kBeginning, kBegin, kScratch, kPlaces, kWorkspace, kLimits, kLockdown));
}

TEST(PlanBox, TellsTheGuestWhatToProve) {
  using wire::Proof;
  wire::GuestSettings guest = plan_box(root_host(), request()).finish.guest;
  std::sort(guest.proofs.begin(), guest.proofs.end());
  std::vector<std::uint8_t> every;
  for (std::uint8_t proof = 0; proof < wire::kProofCount; ++proof) every.push_back(proof);
  const wire::GuestSettings expected{.cgroups = {4, 5},
                                     .payload_uid = 1000,
                                     .payload_gid = 1000,
                                     .payload_outside_uid = box_ids(2, 3).payload,
                                     .proofs = every,
                                     .host_namespaces = {1, 2, 3, 4, 5, 6, 7},
                                     .cgroup_controllers = {"memory", "pids"},
                                     .masked_paths = {"/proc/cmdline", "/proc/irq"},
                                     .read_only_paths = {"/proc/sys"},
                                     .scratch_path = "/dev/shm",
                                     .scratch_bytes = 256u << 20,
                                     .read_only_root = true,
                                     .network_off = true,
                                     .own_inode_paths = {"/usr", "/lib64"}};
  EXPECT_EQ(guest, expected);
  EXPECT_EQ(plan_box(user_host(), request()).finish.guest.payload_outside_uid, 0u);
}

TEST(PlanBox, MountsAWorkspaceInPlaceOfScratch) {
  BoxRequest with_workspace = request();
  with_workspace.mounts = {{.target = "/workspace", .fd = 8, .host_path = "/srv/work"}};
  EXPECT_EQ(text(plan_box(root_host(), with_workspace)),
            str(kBeginning, kBegin, kScratch, kPlaces, "attach a mount at /workspace fd 8\n",
                kLimits, kLockdown));
}

TEST(PlanBox, KeepsScratchAroundAMountInTheWorkspace) {
  BoxRequest with_mount = request();
  with_mount.mounts = {{.target = "/workspace/data", .fd = 8}};
  EXPECT_EQ(text(plan_box(root_host(), with_mount)),
            str(kBeginning, kBegin, kScratch, kPlaces, kWorkspace,
                "attach a mount at /workspace/data fd 8\n", kLimits, kLockdown));
}

TEST(PlanBox, MountsOuterDirectoriesBeforeInnerOnes) {
  BoxRequest nested = request();
  nested.mounts = {{.target = "/workspace/a/b", .fd = 8},
                   {.target = "/workspace/z", .fd = 9},
                   {.target = "/workspace", .fd = 10},
                   {.target = "/workspace/a", .fd = 11}};
  EXPECT_NE(text(plan_box(root_host(), nested))
                .find("attach a mount at /workspace fd 10\n"
                      "attach a mount at /workspace/z fd 9\n"
                      "attach a mount at /workspace/a fd 11\n"
                      "attach a mount at /workspace/a/b fd 8\n"),
            std::string::npos);
}

TEST(PlanBox, ConfiguresANetworkBeforeItLocksDown) {
  BoxRequest online = request();
  online.network = true;
  const BoxPlan plan = plan_box(root_host(), online);
  EXPECT_EQ(text(plan), str(kBeginning, kBegin, kScratch, kPlaces, kWorkspace,
                            "configure the network\n", kLimits, kLockdown));
  EXPECT_TRUE(plan.launch.new_network);
  EXPECT_FALSE(plan.finish.guest.network_off);
}

TEST(PlanBox, GivesAWritableRootToThePayload) {
  BoxRequest writable = request();
  writable.read_only_root = false;
  writable.root_lower = 9;
  const std::string begin =
      str("new root of 268435456 bytes and 65536 inodes of payload\n", directories_of("payload"),
          "make directory /root 0700 of root\n"
          "make symlink /var/tmp to /tmp\n"
          "make symlink /var/run to /run\n"
          "bind /dev of the template at /dev (rw)\n");
  const std::string end =
      str("make symlink /bin to usr/bin\n"
          "bind /lib64 of the template at /lib64 (ro,nosuid,nodev)\n"
          "bind /opt/caisson of the template at /opt/caisson (ro,nosuid,nodev)\n"
          "own inodes for /lib64\n"
          "make directory /etc 0755 of payload\n"
          "bind /etc/ssl/certs of the template at /etc/ssl/certs (ro,nosuid,nodev,noexec)\n"
          "make symlink /etc/mtab to /proc/self/mounts\n"
          "make file /etc/localtime 0644 of 4 bytes\n",
          kGeneratedFiles, kPlaces, kWorkspace);
  EXPECT_EQ(text(plan_box(root_host(), writable)),
            str("--\n", kBegin, begin, "writable layer over /usr lower 9 /usr of payload\n", end,
                kTerminals, kProc, kNames, "change the root\n", kLimits, kLockdown));
  EXPECT_FALSE(plan_box(root_host(), writable).finish.guest.read_only_root);

  writable.root_lower = wire::kNoFd;
  EXPECT_EQ(text(plan_box(user_host(), writable)),
            str("--\n", kBegin, for_user(begin),
                "writable layer over /usr lower none /.host/usr of 0 userxattr\n", for_user(end),
                "terminals at /dev/pts group 0\n", kProc, kNames, "change the root\n", kHandover,
                kLimits, kUserLockdown));
}

TEST(PlanBox, MakesARootOfItsOwnForAMountElsewhere) {
  BoxRequest elsewhere = request();
  elsewhere.workspace_path = "/project";
  elsewhere.mounts = {{.target = "/project", .fd = 8}};
  EXPECT_EQ(text(plan_box(root_host(), elsewhere)),
            str("--\n", kBegin, "new root of 268435456 bytes and 65536 inodes of root\n",
                directories_of("root"),
                "make directory /root 0700 of root\n"
                "make symlink /var/tmp to /tmp\n"
                "make symlink /var/run to /run\n"
                "bind /dev of the template at /dev (rw)\n"
                "bind /usr of the template at /usr (ro,nosuid,nodev)\n"
                "make symlink /bin to usr/bin\n"
                "bind /lib64 of the template at /lib64 (ro,nosuid,nodev)\n"
                "bind /opt/caisson of the template at /opt/caisson (ro,nosuid,nodev)\n"
                "own inodes for /usr /lib64\n"
                "bind /etc of the template at /etc (ro,nosuid,nodev)\n",
                kPlaces, kWorkspace, kTerminals, kProc, kNames, "attach a mount at /project fd 8\n",
                "make / read-only\n", "change the root\n", kLimits, kLockdown));
}

TEST(PlanBox, GivesScratchToAWorkspaceElsewhereThatNothingIsMountedAt) {
  BoxRequest elsewhere = request();
  elsewhere.workspace_path = "/project";
  EXPECT_NE(text(plan_box(root_host(), elsewhere))
                .find(str(kWorkspace,
                          "scratch at /project (rw,nosuid,nodev) workspace-alias 0755 "
                          "of payload\n")),
            std::string::npos);
}

TEST(PlanBox, SharesTheRootOfAnImage) {
  BoxRequest image = request();
  image.image = kImage;
  image.image.system_directories = {"/usr", "/lib64"};
  EXPECT_EQ(text(plan_box(root_host(), image)), text(plan_box(root_host(), request())));
}

TEST(PlanBox, LeavesTheHostBehindInAnImageOfAnOrdinaryUser) {
  BoxRequest image = request();
  image.image = kImage;
  image.mounts = {{.target = "/workspace", .host_path = "/home/u/work", .device = 1, .inode = 2}};
  EXPECT_NE(text(plan_box(user_host(), image))
                .find("bind /run/.host/home/u/work at /workspace (rw,nosuid,nodev) inode 1:2\n"
                      "unmount /run/.host\n"),
            std::string::npos);
}

TEST(PlanBox, LaysAWritableLayerOverAnImage) {
  BoxRequest image = request();
  image.image = kImage;
  image.read_only_root = false;
  image.root_lower = 9;
  const std::string files =
      "bind /dev of the template at /dev (rw)\n"
      "bind /etc/passwd of the template at /etc/passwd (ro,nosuid,nodev,noexec)\n"
      "bind /etc/group of the template at /etc/group (ro,nosuid,nodev,noexec)\n"
      "bind /etc/hosts of the template at /etc/hosts (ro,nosuid,nodev,noexec)\n"
      "bind /etc/resolv.conf of the template at /etc/resolv.conf (ro,nosuid,nodev,noexec)\n";
  EXPECT_EQ(
      text(plan_box(root_host(), image)),
      str("--\n", kBegin, kScratch,
          "writable layer over / lower 9 /var/lib/caisson/images/py/rootfs of payload\n", files,
          kPlaces, kWorkspace, kTerminals, kProc, kNames, "change the root\n", kLimits, kLockdown));

  image.root_lower = wire::kNoFd;
  EXPECT_EQ(text(plan_box(user_host(), image)),
            str("--\n", kBegin, kScratch,
                "writable layer over / lower none /run/.host/var/lib/caisson/images/py/rootfs of 0 "
                "userxattr\n",
                files, for_user(str(kPlaces, kWorkspace)), "terminals at /dev/pts group 0\n", kProc,
                kNames, "change the root\n", kHandover, kLimits, kUserLockdown));
}

TEST(PlanBox, KeepsAnImageReadOnlyForAMountElsewhere) {
  BoxRequest image = request();
  image.image = kImage;
  image.mounts = {{.target = "/project", .fd = 8}};
  image.root_lower = 9;
  const std::string plan = text(plan_box(root_host(), image));
  EXPECT_NE(plan.find("writable layer over / lower 9 /var/lib/caisson/images/py/rootfs of root\n"),
            std::string::npos)
      << plan;
  EXPECT_NE(plan.find("attach a mount at /project fd 8\nmake / read-only\nchange the root\n"),
            std::string::npos)
      << plan;
}

TEST(PlanBox, BindsMountsOfAnOrdinaryUserByPathAndInode) {
  BoxRequest mounts = request();
  mounts.mounts = {{.target = "/workspace", .host_path = "/home/u/work", .device = 1, .inode = 2},
                   {.target = "/workspace/data",
                    .host_path = "/home/u/data",
                    .read_only = true,
                    .device = 3,
                    .inode = 4}};
  EXPECT_EQ(text(plan_box(user_host(), mounts)),
            str(kOwnInodes, "terminals at /dev/pts group 0\n", kProc, kNames, "--\n", kBegin,
                kScratch, for_user(kPlaces),
                "bind /.host/home/u/work at /workspace (rw,nosuid,nodev) inode 1:2\n"
                "bind /.host/home/u/data at /workspace/data (ro,nosuid,nodev) inode 3:4\n"
                "unmount /.host\n",
                kHandover, kLimits, kUserLockdown));
}

TEST(PlanBox, LeavesOutWhatIsWithheldAndItsProof) {
  BoxRequest bare = request();
  bare.enter_cgroups.clear();
  bare.leave_cgroups.clear();
  bare.cgroup_controllers.clear();
  bare.cgroup_namespace = false;
  bare.mask_proc = false;
  bare.own_inodes = false;
  bare.filter.clear();
  const BoxPlan plan = plan_box(root_host(), bare);
  EXPECT_EQ(text(plan),
            str(kTerminals, "proc at /proc\n", kNames, "--\n", kScratch, kPlaces, kWorkspace,
                "resource limit 7 = 4096\n"
                "resource limit 8 = 65536\n"
                "resource limit 11 = 2048\n"
                "resource limit 12 = 65536\n"
                "resource limit 4 = 1\n"
                "enter the user namespace as 65533 gid 65533 fd 1\n"
                "drop privileges\n"));
  for (const wire::Proof absent :
       {wire::Proof::cgroup_namespace, wire::Proof::seccomp, wire::Proof::proc_masks,
        wire::Proof::cgroup_membership, wire::Proof::own_inodes}) {
    EXPECT_EQ(std::count(plan.finish.guest.proofs.begin(), plan.finish.guest.proofs.end(),
                         static_cast<std::uint8_t>(absent)),
              0);
  }
  EXPECT_EQ(plan.finish.guest.proofs.size(), wire::kProofCount - 5u);
}

TEST(PlanBox, GivesInodesOfItsOwnToWhatIsMountedInSystemDirectoriesToo) {
  Host host = root_host();
  host.mounted_directories = {"/usr/local", "/usr/local/share"};
  host.mounted_files = {"/usr/lib/driver.so"};
  BoxRequest box = request();
  box.may_share_inodes = true;
  EXPECT_EQ(text(plan_box(host, box))
                .find("own inodes for /usr /lib64 /usr/local /usr/local/share "
                      "and /usr/lib/driver.so if possible\n"),
            0u);
  EXPECT_EQ(plan_box(host, box).finish.guest.own_inode_paths,
            (std::vector<std::string>{"/usr", "/lib64"}));
  box.image = kImage;
  EXPECT_EQ(text(plan_box(host, box)).find("own inodes"), std::string::npos) << "it has none";
}

TEST(PlanBox, BeginsAllBoxesInASharedRootAlike) {
  BoxRequest other = request();
  other.ids = box_ids(7, 8);
  other.network = true;
  other.scratch_bytes = 1u << 20;
  other.mounts = {{.target = "/workspace", .fd = 8}};
  EXPECT_EQ(plan_box(root_host(), other).launch, plan_box(root_host(), request()).launch);
  // Steps of the beginning have no descriptors to refer to.
  for (const Step& step : plan_box(root_host(), other).launch.plan) {
    EXPECT_EQ(std::visit(Rest{}, step).find(" fd "), std::string::npos) << describe(step);
  }
}

TEST(PlanBox, GivesTheSamePlanForTheSameRequest) {
  EXPECT_EQ(text(plan_box(root_host(), request())), text(plan_box(root_host(), request())));
}

TEST(PlanBox, LimitsWhatTheNumbersMean) {
  EXPECT_EQ(RLIMIT_NOFILE, 7);
  EXPECT_EQ(RLIMIT_MEMLOCK, 8);
  EXPECT_EQ(RLIMIT_SIGPENDING, 11);
  EXPECT_EQ(RLIMIT_MSGQUEUE, 12);
  EXPECT_EQ(RLIMIT_CORE, 4);
}

TEST(Scratch, IsHalfOfTheMemoryWithAnInodeForEveryPage) {
  EXPECT_EQ(scratch_bytes(512), 256u << 20);
  EXPECT_EQ(scratch_bytes(32), 16u << 20);
  EXPECT_EQ(scratch_bytes(model::kMaxMegabytes), 1ull << 59);
  EXPECT_EQ(scratch_inodes(256u << 20), 65536u);
  EXPECT_EQ(scratch_inodes(1u << 20), 4096u);
  EXPECT_EQ(scratch_inodes(1ull << 59), 262'144u);
}

TEST(TargetRefusal, KeepsTheKernelsPlacesAndTheRoot) {
  EXPECT_EQ(target_refusal("/"), "it is the root of the box");
  for (const char* path : {"/proc", "/dev", "/sys"}) {
    const std::string why = str(path, " of the box belongs to the kernel");
    EXPECT_EQ(target_refusal(path), why);
    EXPECT_EQ(target_refusal(str(path, "/x/y")), why);
  }
  for (const char* path : {"/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc"}) {
    EXPECT_EQ(target_refusal(path), str(path, " is part of the box's root file system"));
  }
  for (const char* path :
       {"/workspace", "/tmp", "/project", "/processes", "/devel", "/usr/local"}) {
    EXPECT_EQ(target_refusal(path), "") << path;
  }
}

TEST(SharesRoot, WhenEveryPlaceIsInIt) {
  BoxRequest box = request();
  EXPECT_TRUE(shares_root(box));
  box.mounts = {{.target = "/workspace"}, {.target = "/tmp/x"}, {.target = "/home/box/.cache"}};
  EXPECT_TRUE(shares_root(box));
  box.workspace_path = "/workspace/deep";
  EXPECT_TRUE(shares_root(box));
  box.mounts.push_back({.target = "/workspaces"});
  EXPECT_FALSE(shares_root(box));
  box.mounts.clear();
  box.workspace_path = "/project";
  EXPECT_FALSE(shares_root(box));
  box = request();
  box.read_only_root = false;
  EXPECT_FALSE(shares_root(box));
}

// How many file systems a plan makes for the box to write to; each has both limits. An overlay and
// the scratch places lie in one of them.
int writable_file_systems(const wire::Plan& plan) {
  int count = 0;
  const auto look = [&count](std::uint64_t bytes, std::uint64_t inodes) {
    EXPECT_EQ(bytes, 256u << 20);
    EXPECT_EQ(inodes, 65536u);
    ++count;
  };
  for (const Step& step : plan) {
    if (const auto* root = std::get_if<wire::NewRoot>(&step)) look(root->bytes, root->inodes);
    if (const auto* scratch = std::get_if<wire::MakeScratch>(&step)) {
      look(scratch->bytes, scratch->inodes);
    }
    if (const auto* other = std::get_if<wire::MakeTmpfs>(&step)) look(other->bytes, other->inodes);
  }
  return count;
}

TEST(PlanBox, RefusesScratchWithoutALimit) {
  BoxRequest endless = request();
  endless.scratch_bytes = 0;
  EXPECT_THROW(plan_box(root_host(), endless), Error);
  endless = request();
  endless.scratch_inodes = 0;
  EXPECT_THROW(plan_box(root_host(), endless), Error);
}

// Whatever is asked for: no way to gain privileges through a mount, the walls before the payload.
TEST(PlanBox, KeepsItsPromisesForEveryKindOfBox) {
  for (const bool privileged : {true, false}) {
    for (int choice = 0; choice < 16; ++choice) {
      BoxRequest box = request();
      if ((choice & 1) != 0) box.read_only_root = false;
      if ((choice & 2) != 0) box.image = kImage;
      if ((choice & 4) != 0) box.mounts.push_back({.target = "/data", .host_path = "/srv/data"});
      if ((choice & 8) != 0) box.network = true;
      if (privileged && !box.mounts.empty()) box.mounts[0].fd = 8;
      const wire::Plan plan = plan_box(privileged ? root_host() : user_host(), box).finish.plan;
      SCOPED_TRACE(text(plan));
      ASSERT_GE(plan.size(), 3u);
      EXPECT_TRUE(std::holds_alternative<wire::InstallFilter>(plan[plan.size() - 1]));
      EXPECT_TRUE(std::holds_alternative<wire::DropPrivileges>(plan[plan.size() - 2]));
      EXPECT_TRUE(std::holds_alternative<wire::EnterUserNamespace>(plan[plan.size() - 3]));
      EXPECT_EQ(writable_file_systems(plan), 1) << "all that can be written shares one limit";
      for (const Step& step : plan) {
        if (const auto* bind = std::get_if<wire::BindHost>(&step)) {
          EXPECT_FALSE(privileged) << "the host is out of reach";
          EXPECT_EQ(bind->flags & (wire::kNoSuid | wire::kNoDev), wire::kNoSuid | wire::kNoDev);
        }
        if (const auto* bind = std::get_if<wire::BindScratch>(&step)) {
          EXPECT_EQ(bind->flags & (wire::kNoSuid | wire::kNoDev), wire::kNoSuid | wire::kNoDev);
        }
        if (const auto* bind = std::get_if<wire::BindTemplate>(&step)) {
          if (bind->target != "/dev") {
            EXPECT_NE(bind->flags & wire::kReadOnly, 0u);
            EXPECT_NE(bind->flags & wire::kNoSuid, 0u);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace caisson::backend::native
