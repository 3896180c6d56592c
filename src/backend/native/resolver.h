#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace caisson::backend::native {

// What the host knows about name servers. The caller reads the files, through their symlinks.
struct ResolverSources {
  std::string_view resolv_conf;  // /etc/resolv.conf
  std::string_view upstream;     // /run/systemd/resolve/resolv.conf; empty when absent
  std::vector<std::string>
      host_addresses;  // the host's own IPv4 addresses: boxes cannot reach them
};

// A box's /etc/resolv.conf.
struct BoxResolver {
  std::string text;                      // the whole file, valid even when there is a problem
  std::vector<std::string> nameservers;  // those in it
  std::string problem;  // why names cannot be resolved in the box; empty when they can
  std::string fix;
};

// Keeps the name servers a box can reach (IPv4, not on the host, not link-local) and the search and
// options lines. A host whose servers are all local stubs (systemd-resolved) gives those the stub
// asks. Pure.
BoxResolver make_resolver(const ResolverSources& sources);

}  // namespace caisson::backend::native
