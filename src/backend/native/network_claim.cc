#include "backend/native/network_claim.h"

#include <arpa/inet.h>
#include <libmnl/libmnl.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <ctime>
#include <string>

#include "base/error.h"
#include "base/str.h"

namespace caisson::backend::native {

namespace {

// NFT_TABLE_F_OWNER of Linux 5.12, which older headers lack.
constexpr std::uint32_t kOwnedBySocket = 0x2;
constexpr std::uint32_t kTableMessage = 2;  // its number in the batch

// Messages about tables come in a batch, which the kernel applies as a whole.
class Batch {
 public:
  explicit Batch(const std::string& table) {
    add(NFNL_MSG_BATCH_BEGIN, 0, AF_UNSPEC, NFNL_SUBSYS_NFTABLES);
    nlmsghdr* made = add(NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_NEWTABLE,
                         NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK, NFPROTO_INET, 0);
    mnl_attr_put_strz(made, NFTA_TABLE_NAME, table.c_str());
    mnl_attr_put_u32(made, NFTA_TABLE_FLAGS, htonl(kOwnedBySocket));
    size_ += made->nlmsg_len - kHeaders;
    add(NFNL_MSG_BATCH_END, 0, AF_UNSPEC, NFNL_SUBSYS_NFTABLES);
  }
  const char* data() const { return buffer_.data(); }
  std::size_t size() const { return size_; }

 private:
  static constexpr std::size_t kHeaders = MNL_NLMSG_HDRLEN + sizeof(nfgenmsg);

  nlmsghdr* add(unsigned type, unsigned flags, unsigned family, unsigned resource) {
    nlmsghdr* message = mnl_nlmsg_put_header(buffer_.data() + size_);
    message->nlmsg_type = static_cast<std::uint16_t>(type);
    message->nlmsg_flags = static_cast<std::uint16_t>(NLM_F_REQUEST | flags);
    message->nlmsg_seq = ++sequence_;
    auto* header = static_cast<nfgenmsg*>(mnl_nlmsg_put_extra_header(message, sizeof(nfgenmsg)));
    header->nfgen_family = static_cast<std::uint8_t>(family);
    header->version = NFNETLINK_V0;
    header->res_id = htons(static_cast<std::uint16_t>(resource));
    size_ += kHeaders;
    return message;
  }

  alignas(8) std::array<char, 512> buffer_{};
  std::size_t size_ = 0;
  std::uint32_t sequence_ = 0;
};

struct Verdict {
  std::uint32_t message = 0;  // the kernel's first word about any
  int error = 0;
};

// The kernel answers before the send returns.
Verdict read_verdict(int socket, const std::string& what) {
  alignas(8) std::array<char, 4096> buffer{};
  for (;;) {
    const ssize_t got = ::recv(socket, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    check_syscall(what, got);
    const auto* message = reinterpret_cast<const nlmsghdr*>(buffer.data());
    for (int left = static_cast<int>(got); mnl_nlmsg_ok(message, left);
         message = mnl_nlmsg_next(message, &left)) {
      if (message->nlmsg_type != NLMSG_ERROR) continue;
      const auto* answer = static_cast<const nlmsgerr*>(mnl_nlmsg_get_payload(message));
      if (answer->error != 0 || message->nlmsg_seq == kTableMessage) {
        return {.message = message->nlmsg_seq, .error = -answer->error};
      }
    }
  }
}

}  // namespace

std::optional<NetworkClaim> NetworkClaim::take(unsigned number) {
  const std::string table = str("caisson_claim_", number);
  const std::string what = str("claim table ", table);
  UniqueFd socket(
      check_syscall(what, ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER)));
  const sockaddr_nl kernel{.nl_family = AF_NETLINK};
  const Batch batch(table);
  check_syscall(what, ::sendto(socket.get(), batch.data(), batch.size(), 0,
                               reinterpret_cast<const sockaddr*>(&kernel), sizeof kernel));
  const Verdict verdict = read_verdict(socket.get(), what);
  if (verdict.error == 0) return NetworkClaim(number, std::move(socket));
  // The table of another socket may not be touched. Who may touch none is told so at the beginning
  // of the batch.
  const bool taken = verdict.error == EEXIST || verdict.error == EPERM;
  if (taken && verdict.message == kTableMessage) return std::nullopt;
  throw Error(ErrorCode::isolation_unavailable, str(what, ": ", error_text(verdict.error),
                                                    "; `caisson doctor` says what is missing"));
}

}  // namespace caisson::backend::native
