#include "backend/native/nat_table.h"

#include <arpa/inet.h>
#include <endian.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <nftables/libnftables.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>

#include "backend/native/netlink.h"
#include "base/error.h"
#include "base/file.h"
#include "base/str.h"
#include "base/text.h"

namespace caisson::backend::native {

namespace {

enum class NftMode { apply, check };

// Gives back what nftables says is wrong; empty when all is well. The library keeps global tables,
// hence one user at a time. In check mode the kernel judges the rules and then forgets them.
std::string run_nft(const std::string& commands, NftMode mode) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  const std::unique_ptr<nft_ctx, void (*)(nft_ctx*)> context(nft_ctx_new(NFT_CTX_DEFAULT),
                                                             nft_ctx_free);
  if (context == nullptr) return "libnftables does not start";
  nft_ctx_set_dry_run(context.get(), mode == NftMode::check);
  nft_ctx_buffer_output(context.get());
  nft_ctx_buffer_error(context.get());
  if (nft_run_cmd_from_buffer(context.get(), commands.c_str()) == 0) return "";
  const std::string text = nft_ctx_get_error_buffer(context.get());
  return text.empty() ? "nftables refuses the rules" : std::string(split(text, '\n').front());
}

void apply_nft(const std::string& commands, std::string_view what) {
  const std::string problem = run_nft(commands, NftMode::apply);
  if (problem.empty()) return;
  throw Error(ErrorCode::isolation_unavailable,
              str(what, ": ", problem, "; `caisson doctor` says what is missing"));
}

std::optional<unsigned> owner_of_table(std::string_view name) {
  constexpr std::string_view kPrefix = "caisson_";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const auto number = parse_integer(name.substr(kPrefix.size()));
  if (!number || *number < 0 || *number > kMaxNetworkOwner) return std::nullopt;
  const auto owner = static_cast<unsigned>(*number);
  if (nat_table_name(owner) != name) return std::nullopt;  // "caisson_007" is not ours
  return owner;
}

NetlinkRequest nft_request(std::string what, unsigned message, unsigned family,
                           std::uint16_t flags) {
  return NetlinkRequest(
      std::move(what), static_cast<std::uint16_t>(NFNL_SUBSYS_NFTABLES << 8 | message), flags,
      nfgenmsg{.nfgen_family = static_cast<std::uint8_t>(family), .version = NFNETLINK_V0});
}

std::string replace_all(std::string text, std::string_view mark, std::string_view value) {
  for (std::size_t at = 0; (at = text.find(mark, at)) != std::string::npos; at += value.size()) {
    text.replace(at, mark.size(), value);
  }
  return text;
}

// The table has no size yet where nobody has used it since the kernel was started.
ConnectionLimits limits_of_this_host() {
  const auto text = find_file_content("/proc/sys/net/netfilter/nf_conntrack_max");
  const auto size = parse_integer(trim(text.value_or("")));
  return connection_limits(size && *size > 0 ? static_cast<std::uint64_t>(*size) : 0);
}

struct Chain {
  std::string table;
  std::string name;
  std::optional<std::uint32_t> hook;  // of a base chain
  std::uint32_t policy = NF_ACCEPT;
};

Chain parse_chain(const nlmsghdr& message) {
  Chain chain;
  for_each_attribute(message, sizeof(nfgenmsg), [&](const nlattr* attribute) {
    const auto type = mnl_attr_get_type(attribute);
    if (type == NFTA_CHAIN_TABLE) chain.table = mnl_attr_get_str(attribute);
    if (type == NFTA_CHAIN_NAME) chain.name = mnl_attr_get_str(attribute);
    if (type == NFTA_CHAIN_POLICY) chain.policy = ntohl(mnl_attr_get_u32(attribute));
    if (type == NFTA_CHAIN_HOOK) {
      for_each_nested(attribute, [&](const nlattr* nested) {
        if (mnl_attr_get_type(nested) == NFTA_HOOK_HOOKNUM) {
          chain.hook = ntohl(mnl_attr_get_u32(nested));
        }
      });
    }
  });
  return chain;
}

}  // namespace

std::string link_prefix(unsigned owner) {
  return str("cs", owner, "x");
}
std::string nat_table_name(unsigned owner) {
  return str("caisson_", owner);
}

// from_box runs before connection tracking and before anybody's DNAT: Docker redirects connections
// to the host's own addresses there, and they would never come by `input`.
//   - `fib saddr . iif oif missing`: the only route through the interface leads to the box's
//   address,
//     so any other source is forged.
//   - `fib daddr type != unicast`: every address of the host, broadcast and multicast.
//   - Metadata services: link-local; Alibaba's; Azure's, which also is its name server.
// `forward` lets boxes out by the uplinks only (not to bridges of containers, nor to other boxes),
// and nothing in but answers: the uplinks forward, so a neighbour could try.
// new_connection sees the packet that would put a connection into the kernel's table, and no later
// one. The count leaves out what has been closed, which the table still holds for two minutes;
// hence the rate. What is dropped here is sent again by its protocol, a little later.
std::string nat_table_rules(unsigned owner, const std::vector<std::string>& uplinks,
                            const ConnectionLimits& limits) {
  constexpr std::string_view kRules = R"(
table inet TABLE {}
delete table inet TABLE
table inet TABLE {
  set uplinks { type ifname; elements = { UPLINKS } }
  set rates { type ipv4_addr; size 65535; flags dynamic,timeout; timeout 5m; }
  set connections { type ipv4_addr; size 65535; flags dynamic; }
  chain from_box {
    meta nfproto != ipv4 drop
    fib saddr . iif oif missing drop
    fib daddr type != unicast drop
    ip daddr { METADATA } drop
    ip daddr 168.63.129.16 th dport != 53 drop
  }
  chain new_connection {
    update @rates { ip saddr limit rate over RATE/second burst OPEN packets } drop
    add @connections { ip saddr ct count over OPEN } drop
  }
  chain prerouting {
    type filter hook prerouting priority raw; policy accept;
    iifname "BOX*" jump from_box
  }
  chain input {
    type filter hook input priority filter; policy accept;
    iifname "BOX*" drop
  }
  chain forward {
    type filter hook forward priority filter; policy accept;
    iifname "BOX*" oifname != @uplinks drop
    iifname "BOX*" ct status & confirmed == 0 jump new_connection
    oifname "BOX*" iifname != @uplinks drop
    oifname "BOX*" ct state != { established, related } drop
  }
  chain postrouting {
    type nat hook postrouting priority srcnat; policy accept;
    iifname "BOX*" oifname @uplinks masquerade
  }
}
)";
  std::vector<std::string> quoted;
  quoted.reserve(uplinks.size());
  for (const std::string& uplink : uplinks) quoted.push_back(str('"', uplink, '"'));
  std::vector<std::string> metadata;
  for (const AddressRange& range : kMetadataServices) {
    metadata.push_back(str(format_address(range.first), "/", range.prefix_length));
  }
  std::string rules = replace_all(std::string(kRules), "TABLE", nat_table_name(owner));
  rules = replace_all(std::move(rules), "BOX", link_prefix(owner));
  rules = replace_all(std::move(rules), "METADATA", join(metadata, ", "));
  rules = replace_all(std::move(rules), "RATE", str(limits.new_per_second));
  rules = replace_all(std::move(rules), "OPEN", str(limits.open));
  return replace_all(std::move(rules), "UPLINKS", join(quoted, ", "));
}

ConnectionLimits connection_limits(std::uint64_t table_size) {
  const auto share = static_cast<unsigned>(std::clamp<std::uint64_t>(table_size / 16, 1024, 16384));
  // A quarter may be open; the rest is for the closed of two minutes.
  return {.open = share / 4, .new_per_second = share * 3 / 4 / 120};
}

void load_nat_table(unsigned owner, const std::vector<std::string>& uplinks) {
  apply_nft(nat_table_rules(owner, uplinks, limits_of_this_host()),
            str("load table ", nat_table_name(owner)));
}

void delete_nat_table(unsigned owner) {
  const std::string name = nat_table_name(owner);
  apply_nft(str("table inet ", name, " {}\ndelete table inet ", name, "\n"),
            str("delete table ", name));
}

std::string check_nat_table(unsigned owner, const std::vector<std::string>& uplinks) {
  return run_nft(nat_table_rules(owner, uplinks, limits_of_this_host()), NftMode::check);
}

std::uint64_t find_nat_table(unsigned owner) {
  const std::string name = nat_table_name(owner);
  Netlink netfilter(NETLINK_NETFILTER);
  NetlinkRequest request =
      nft_request(str("look up table ", name), NFT_MSG_GETTABLE, NFPROTO_INET, 0);
  request.text(NFTA_TABLE_NAME, name);
  std::uint64_t handle = 0;
  const int error = netfilter.attempt(request, [&](const nlmsghdr& reply) {
    for_each_attribute(reply, sizeof(nfgenmsg), [&](const nlattr* attribute) {
      if (mnl_attr_get_type(attribute) != NFTA_TABLE_HANDLE) return;
      handle = be64toh(mnl_attr_get_u64(attribute));
    });
  });
  if (error != 0 && error != ENOENT) throw SystemError(request.what(), error);
  return handle;
}

int list_nat_tables(std::set<unsigned>& owners) {
  Netlink netfilter(NETLINK_NETFILTER);
  NetlinkRequest request = nft_request("list tables", NFT_MSG_GETTABLE, NFPROTO_INET, NLM_F_DUMP);
  return netfilter.attempt(request, [&](const nlmsghdr& reply) {
    for_each_attribute(reply, sizeof(nfgenmsg), [&](const nlattr* attribute) {
      if (mnl_attr_get_type(attribute) != NFTA_TABLE_NAME) return;
      if (const auto owner = owner_of_table(mnl_attr_get_str(attribute))) owners.insert(*owner);
    });
  });
}

std::string find_dropping_forward_chain() {
  Netlink netfilter(NETLINK_NETFILTER);
  std::string found;
  for (const unsigned family : {NFPROTO_IPV4, NFPROTO_INET}) {
    NetlinkRequest request = nft_request("list chains", NFT_MSG_GETCHAIN, family, NLM_F_DUMP);
    netfilter.query(request, [&](const nlmsghdr& reply) {
      const Chain chain = parse_chain(reply);
      if (chain.hook != NF_INET_FORWARD || chain.policy != NF_DROP) return;
      found = str(family == NFPROTO_IPV4 ? "ip " : "inet ", chain.table, " ", chain.name);
    });
  }
  return found;
}

}  // namespace caisson::backend::native
