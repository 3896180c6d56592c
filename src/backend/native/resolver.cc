#include "backend/native/resolver.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/str.h"
#include "base/text.h"

namespace caisson::backend::native {

namespace {

constexpr std::size_t kMaxNameservers = 3;  // the C library reads no more (MAXNS)

struct ResolvConf {
  std::vector<std::string> nameservers;  // all of them, in order
  std::string search;  // the last `search` or `domain` line, which is the one that counts
  std::vector<std::string> options;  // every `options` line; they add up
};

ResolvConf parse(std::string_view content) {
  ResolvConf conf;
  for (const std::string_view raw : split(content, '\n')) {
    const std::string_view line = trim(raw);
    const std::size_t blank = line.find_first_of(" \t");
    if (line.empty() || line[0] == '#' || line[0] == ';' || blank == std::string_view::npos)
      continue;
    const std::string_view keyword = line.substr(0, blank);
    const std::string_view rest = trim(line.substr(blank));
    if (keyword == "nameserver") {
      conf.nameservers.emplace_back(rest.substr(0, rest.find_first_of(" \t")));
    } else if (keyword == "search" || keyword == "domain") {
      conf.search = str(keyword, " ", rest);
    } else if (keyword == "options") {
      conf.options.push_back(str("options ", rest));
    }
  }
  return conf;
}

bool is_reachable(const std::string& nameserver, const std::vector<std::string>& host_addresses) {
  in_addr network{};
  if (::inet_pton(AF_INET, nameserver.c_str(), &network) != 1) return false;  // boxes have no IPv6
  const std::uint32_t address = ntohl(network.s_addr);
  const bool this_host = address >> 24 == 127 || address >> 24 == 0;  // 0.0.0.0 means the host too
  const bool link_local = address >> 16 == (169u << 8 | 254u);
  const bool multicast = address >> 28 >= 14;
  return !this_host && !link_local && !multicast &&
         std::find(host_addresses.begin(), host_addresses.end(), nameserver) ==
             host_addresses.end();
}

std::vector<std::string> reachable(const ResolvConf& conf, const ResolverSources& sources) {
  std::vector<std::string> result;
  for (const std::string& nameserver : conf.nameservers) {
    if (result.size() == kMaxNameservers) break;
    if (is_reachable(nameserver, sources.host_addresses)) result.push_back(nameserver);
  }
  return result;
}

}  // namespace

BoxResolver make_resolver(const ResolverSources& sources) {
  const ResolvConf host = parse(sources.resolv_conf);
  const ResolvConf upstream = parse(sources.upstream);
  BoxResolver resolver;
  resolver.nameservers = reachable(host, sources);
  std::vector<std::string> options = host.options;
  if (resolver.nameservers.empty()) {
    // Options belong to the servers: `trust-ad` for a stub on the host says nothing of its
    // upstream.
    resolver.nameservers = reachable(upstream, sources);
    options = upstream.options;
  }
  for (const std::string& nameserver : resolver.nameservers) {
    resolver.text += str("nameserver ", nameserver, "\n");
  }
  const std::string& search = host.search.empty() ? upstream.search : host.search;
  if (!search.empty()) resolver.text += search + "\n";
  for (const std::string& line : options) resolver.text += line + "\n";

  if (resolver.nameservers.empty()) {
    resolver.problem =
        host.nameservers.empty()
            ? "/etc/resolv.conf names no name server"
            : str("boxes cannot reach the host's name servers (", join(host.nameservers, ", "),
                  "): only IPv4 servers that are neither on the host nor link-local can be used");
    resolver.fix = "add a line such as `nameserver 9.9.9.9` to /etc/resolv.conf";
  }
  return resolver;
}

}  // namespace caisson::backend::native
