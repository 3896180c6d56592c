#pragma once
#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace caisson::backend::native {

inline constexpr unsigned kMaxNetworkOwner = 4095;

// Interfaces of an owner's boxes are named "cs<owner>x<number>", its table "inet caisson_<owner>".
std::string link_prefix(unsigned owner);
std::string nat_table_name(unsigned owner);

// Addresses that boxes never reach, because clouds hand out secrets there: link-local ones and
// Alibaba's metadata service.
struct AddressRange {
  std::uint32_t first;
  unsigned prefix_length;
};
inline constexpr AddressRange kMetadataServices[] = {{0xa9fe0000, 16}, {0x646464c8, 32}};

// The kernel remembers the connections of all boxes and of the host in one table of bounded size.
struct ConnectionLimits {
  unsigned open;            // of one box at a time
  unsigned new_per_second;  // beyond a burst of as many as may be open
  bool operator==(const ConnectionLimits&) const = default;
};
// A sixteenth of the table for each box, with what it remembers of closed connections. Pure.
ConnectionLimits connection_limits(std::uint64_t table_size);

// The table as nftables reads it; replaces the one in force in one step.
std::string nat_table_rules(unsigned owner, const std::vector<std::string>& uplinks,
                            const ConnectionLimits& limits);

// Throws isolation_unavailable with what nftables has to say.
void load_nat_table(unsigned owner, const std::vector<std::string>& uplinks);
void delete_nat_table(unsigned owner);  // a table that is not there is deleted

// Has the kernel judge the rules without keeping them. Empty when it would take them.
std::string check_nat_table(unsigned owner, const std::vector<std::string>& uplinks);

// A number that tells the table from one of the same name made later; 0 when there is none.
std::uint64_t find_nat_table(unsigned owner);

// Adds the owners of all the tables there are. Gives back 0 or an errno: EPERM without
// CAP_NET_ADMIN, others when the kernel has no nf_tables.
int list_nat_tables(std::set<unsigned>& owners);

// A chain of somebody else that drops forwarded packets unless one of its rules says otherwise,
// e.g. "ip filter FORWARD"; empty when there is none. Accepting in our table does not overrule it.
std::string find_dropping_forward_chain();

}  // namespace caisson::backend::native
