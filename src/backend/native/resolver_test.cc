#include "backend/native/resolver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace caisson::backend::native {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Resolver, KeepsServersSearchAndOptions) {
  const BoxResolver resolver = make_resolver({.resolv_conf = "# made by somebody\n"
                                                             "nameserver 192.168.1.1\n"
                                                             "nameserver 9.9.9.9\n"
                                                             "search corp.example lan\n"
                                                             "options ndots:2 timeout:1\n"
                                                             "sortlist 130.155.160.0\n"});
  EXPECT_EQ(resolver.text,
            "nameserver 192.168.1.1\nnameserver 9.9.9.9\n"
            "search corp.example lan\noptions ndots:2 timeout:1\n");
  EXPECT_EQ(resolver.problem, "");
}

TEST(Resolver, ReadsLinesAsTheCLibraryDoes) {
  const BoxResolver resolver = make_resolver({.resolv_conf = "\tnameserver\t10.0.0.1 # office\r\n"
                                                             "nameserver\n"
                                                             ";nameserver 10.0.0.2\n"
                                                             "nameservers 10.0.0.3\n"
                                                             "domain first.example\n"
                                                             "search last.example\n"
                                                             "options rotate\n"
                                                             "options edns0"});
  EXPECT_EQ(resolver.text,
            "nameserver 10.0.0.1\nsearch last.example\noptions rotate\noptions edns0\n");
}

struct Unreachable {
  const char* name;
  const char* address;
};

class UnreachableServer : public testing::TestWithParam<Unreachable> {};

TEST_P(UnreachableServer, IsLeftOut) {
  const std::string content =
      std::string("nameserver ") + GetParam().address + "\nnameserver 8.8.4.4\n";
  const BoxResolver resolver =
      make_resolver({.resolv_conf = content, .host_addresses = {"127.0.0.1", "192.168.1.7"}});
  EXPECT_THAT(resolver.nameservers, ElementsAre("8.8.4.4"));
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, UnreachableServer,
    testing::Values(Unreachable{"Loopback", "127.0.0.53"},
                    Unreachable{"OtherLoopback", "127.1.2.3"}, Unreachable{"Any", "0.0.0.0"},
                    Unreachable{"LinkLocal", "169.254.169.254"},
                    Unreachable{"Multicast", "224.0.0.251"}, Unreachable{"Ipv6", "2620:fe::fe"},
                    Unreachable{"Ipv6Loopback", "::1"}, Unreachable{"Ipv6Scoped", "fe80::1%eth0"},
                    Unreachable{"AddressOfTheHost", "192.168.1.7"},
                    Unreachable{"NotAnAddress", "dns.example"}),
    [](const auto& entry) { return std::string(entry.param.name); });

TEST(Resolver, AsksTheUpstreamOfALocalStub) {
  const BoxResolver resolver = make_resolver({.resolv_conf = "nameserver 127.0.0.53\n"
                                                             "options edns0 trust-ad\n"
                                                             "search lan\n",
                                              .upstream = "nameserver 192.168.1.1\n"
                                                          "nameserver fd00::1\n"
                                                          "search lan\n"});
  EXPECT_EQ(resolver.text, "nameserver 192.168.1.1\nsearch lan\n");
  EXPECT_EQ(resolver.problem, "");
}

TEST(Resolver, IgnoresTheUpstreamWhenTheHostNamesAReachableServer) {
  const BoxResolver resolver =
      make_resolver({.resolv_conf = "nameserver 127.0.0.53\nnameserver 1.1.1.1\n",
                     .upstream = "nameserver 9.9.9.9\n"});
  EXPECT_THAT(resolver.nameservers, ElementsAre("1.1.1.1"));
}

TEST(Resolver, KeepsAsManyServersAsTheCLibraryReads) {
  const BoxResolver resolver = make_resolver({.resolv_conf = "nameserver ::1\n"
                                                             "nameserver 10.0.0.1\n"
                                                             "nameserver 10.0.0.2\n"
                                                             "nameserver 10.0.0.3\n"
                                                             "nameserver 10.0.0.4\n"});
  EXPECT_THAT(resolver.nameservers, ElementsAre("10.0.0.1", "10.0.0.2", "10.0.0.3"));
}

TEST(Resolver, SaysWhichServersAreUnreachableAndWhatToDo) {
  const BoxResolver resolver = make_resolver(
      {.resolv_conf = "nameserver 127.0.0.1\nsearch lan\n", .upstream = "nameserver ::1\n"});
  EXPECT_THAT(resolver.nameservers, IsEmpty());
  EXPECT_EQ(resolver.text, "search lan\n");
  EXPECT_THAT(resolver.problem, HasSubstr("127.0.0.1"));
  EXPECT_THAT(resolver.fix, HasSubstr("/etc/resolv.conf"));
}

TEST(Resolver, SaysThatNoServerIsNamed) {
  const BoxResolver resolver = make_resolver({});
  EXPECT_EQ(resolver.text, "");
  EXPECT_EQ(resolver.problem, "/etc/resolv.conf names no name server");
}

}  // namespace
}  // namespace caisson::backend::native
