#include "wire/launch.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "wire/bytes.h"
#include "wire/samples_for_test.h"

namespace caisson::wire {
namespace {

// The sentence with which the data is refused as a protocol_error; "" when it is taken.
template <typename Decode>
std::string refusal(const Decode& decode, std::string_view data) {
  try {
    decode(data);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::protocol_error) << error.what();
    return error.what();
  }
  return "";
}

// The step after a trip through the launcher's socket.
Step sent(const Step& step) {
  const LaunchRequest request = BuildTemplate{.plan = {step}};
  return std::get<BuildTemplate>(decode_launch_request(encode(request))).plan.at(0);
}

std::string with_number(std::string data, std::size_t at, std::uint32_t number) {
  Writer writer;
  writer.put(number);
  return data.replace(at, 4, std::move(writer).take());
}

TEST(LaunchRequest, SamplesCoverEveryKindAndEveryStep) {
  EXPECT_TRUE(samples::complete(samples::launch_requests()));
  EXPECT_TRUE(samples::complete(samples::launch_replies()));
  EXPECT_TRUE(samples::complete(samples::steps()));
}

TEST(LaunchRequest, SurvivesTheWay) {
  for (const LaunchRequest& request : samples::launch_requests()) {
    EXPECT_EQ(decode_launch_request(encode(request)), request) << "kind " << request.index();
  }
}

TEST(LaunchReply, SurvivesTheWay) {
  for (const LaunchReply& reply : samples::launch_replies()) {
    EXPECT_EQ(decode_launch_reply(encode(reply)), reply) << "kind " << reply.index();
  }
}

TEST(Plan, EveryStepSurvivesTheWay) {
  for (const Step& step : samples::steps()) EXPECT_EQ(sent(step), step) << describe(step);
}

TEST(Plan, EveryStepWithDefaultsSurvivesTheWay) {
  const Plan plan = {EnterCgroups{},       NewCgroupNamespace{}, BringLoopbackUp{},
                     HandOverNetwork{},    SetHostname{},        NewRoot{},
                     BindRoot{},           MakeDirectory{},      MakeSymlink{},
                     MakeFile{},           BindHost{},           BindTemplate{},
                     BindInside{},         MakeTmpfs{},          AttachMount{},
                     MakeScratch{},        BindScratch{},        MountOverlay{},
                     MountProc{},          MountTerminals{},     MaskPath{},
                     MakeReadOnly{},       PivotRoot{},          Unmount{},
                     EnterUserNamespace{}, SetResourceLimit{},   DropPrivileges{},
                     InstallFilter{},      OwnInodes{},          HandOverMounts{}};
  EXPECT_TRUE(samples::complete(plan));
  for (const Step& step : plan) EXPECT_EQ(sent(step), step) << describe(step);
}

TEST(LaunchRequest, IsRefusedWhereverItIsCut) {
  for (const LaunchRequest& request : samples::launch_requests()) {
    const std::string whole = encode(request);
    for (std::size_t length = 0; length < whole.size(); ++length) {
      EXPECT_NE(refusal(decode_launch_request, std::string_view(whole).substr(0, length)), "")
          << length << " of " << whole.size() << " bytes, kind " << request.index();
    }
  }
}

TEST(LaunchReply, IsRefusedWhereverItIsCut) {
  for (const LaunchReply& reply : samples::launch_replies()) {
    const std::string whole = encode(reply);
    for (std::size_t length = 0; length < whole.size(); ++length) {
      EXPECT_NE(refusal(decode_launch_reply, std::string_view(whole).substr(0, length)), "");
    }
  }
}

TEST(LaunchRequest, IsRefusedWithBytesAfterItsEnd) {
  for (const LaunchRequest& request : samples::launch_requests()) {
    EXPECT_EQ(refusal(decode_launch_request, encode(request) + '\0'),
              "message with bytes after its end");
  }
  for (const LaunchReply& reply : samples::launch_replies()) {
    EXPECT_EQ(refusal(decode_launch_reply, encode(reply) + '\0'),
              "message with bytes after its end");
  }
}

TEST(LaunchRequest, RefusesKindsThatDoNotExist) {
  for (std::size_t kind = std::variant_size_v<LaunchRequest>; kind < 256; ++kind) {
    EXPECT_EQ(refusal(decode_launch_request, std::string(1, static_cast<char>(kind))),
              "message of an unknown type");
  }
  for (std::size_t kind = std::variant_size_v<LaunchReply>; kind < 256; ++kind) {
    EXPECT_EQ(refusal(decode_launch_reply, std::string(1, static_cast<char>(kind))),
              "message of an unknown type");
  }
}

TEST(LaunchRequest, RefusesStepsThatDoNotExist) {
  // kind, the count of steps, then the kind of the first step.
  std::string data = encode(LaunchRequest(BuildTemplate{.plan = {DropPrivileges{}}}));
  for (std::size_t kind = std::variant_size_v<Step>; kind < 256; ++kind) {
    data[5] = static_cast<char>(kind);
    EXPECT_EQ(refusal(decode_launch_request, data), "message of an unknown type") << kind;
  }
}

TEST(LaunchRequest, RefusesAListLongerThanItself) {
  const std::string plan = encode(LaunchRequest(BuildTemplate{.plan = {DropPrivileges{}}}));
  const std::string maps = encode(LaunchRequest(CreateUserNamespace{.uids = {IdRange{}}}));
  const std::string names = encode(LaunchRequest(AdoptCgroups{.names = {"caisson-0"}}));
  for (const std::uint32_t count : {100u, 0x80000000u, samples::kMax32}) {
    for (const std::string& data : {plan, maps, names}) {
      EXPECT_EQ(refusal(decode_launch_request, with_number(data, 1, count)),
                "message with a list longer than itself")
          << count;
    }
  }
}

TEST(LaunchRequest, RefusesATextLongerThanItself) {
  const std::string data =
      encode(LaunchRequest(BuildTemplate{.plan = {SetHostname{.name = "box"}}}));
  for (const std::uint32_t length : {100u, 0x80000000u, samples::kMax32}) {
    EXPECT_EQ(refusal(decode_launch_request, with_number(data, 6, length)), "message cut short");
  }
}

TEST(LaunchRequest, RefusesAFlagThatIsNeitherSetNorUnset) {
  std::string data = encode(LaunchRequest(BuildTemplate{}));
  data.back() = '\x02';
  EXPECT_EQ(refusal(decode_launch_request, data), "message with a malformed flag");
}

TEST(LaunchRequest, HasOneSpelling) {
  for (const LaunchRequest& request : samples::launch_requests()) {
    const std::string data = encode(request);
    for (std::size_t at = 0; at < data.size(); ++at) {
      std::string changed = data;
      changed[at] = static_cast<char>(changed[at] ^ 0x81);
      try {
        EXPECT_EQ(encode(decode_launch_request(changed)), changed);
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::protocol_error);
      }
    }
  }
}

TEST(Describe, SaysEveryStepInOneLine) {
  const std::vector<std::string> expected = {
      "enter the cgroups",
      "new cgroup namespace",
      "bring lo up",
      "configure the network",
      "hand over the mounts",
      "set hostname box",
      "new root of 4194304 bytes and 4096 inodes",
      "bind /var/lib/caisson/images/a/rootfs as the root (ro)",
      "make directory /home/box",
      "make symlink /bin to usr/bin",
      "make file /etc/hostname",
      "bind /usr at /usr (ro,nosuid,nodev)",
      "bind /dev of the template at /dev (rw,nosuid,noexec)",
      "bind /dev/.files/hosts at /etc/hosts (ro)",
      "tmpfs of 65536 bytes at /dev",
      "attach a mount at /workspace",
      "scratch of 268435456 bytes and 65536 inodes",
      "scratch at /tmp (rw,nodev)",
      "writable layer over /usr",
      "proc at /proc",
      "terminals at /dev/pts",
      "mask /proc/kcore",
      "make /proc/sys read-only",
      "change the root",
      "unmount /.host",
      "enter the user namespace as 65533",
      "resource limit 7 = 18446744073709551615",
      "drop privileges",
      "install a system call filter of 1 instructions",
      "own inodes for /usr /usr/local",
  };
  std::vector<std::string> lines;
  for (const Step& step : samples::steps()) lines.push_back(describe(step));
  EXPECT_EQ(lines, expected);
}

}  // namespace
}  // namespace caisson::wire
