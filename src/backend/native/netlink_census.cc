#include "backend/native/netlink_census.h"

#include "base/file.h"
#include "base/str.h"
#include "base/text.h"

namespace caisson::backend::native {

// "sk Eth Pid Groups Rmem Wmem ...", a heading with these words first.
std::uint64_t netlink_bytes(std::string_view table) {
  constexpr std::size_t kRmem = 4;
  std::uint64_t sum = 0;
  for (const std::string_view line : split(table, '\n')) {
    std::vector<std::string_view> words = split(line, ' ');
    std::erase(words, "");
    const auto bytes = words.size() > kRmem ? parse_integer(words[kRmem]) : std::nullopt;
    if (bytes && *bytes > 0) sum += static_cast<std::uint64_t>(*bytes);
  }
  return sum;
}

std::optional<pid_t> find_netlink_hoarder(const std::set<pid_t>& guests) {
  for (const pid_t guest : guests) {
    const auto table = find_file_content(str("/proc/", guest, "/net/netlink"));
    if (table && netlink_bytes(*table) > kMostNetlinkBytes) return guest;
  }
  return std::nullopt;
}

}  // namespace caisson::backend::native
