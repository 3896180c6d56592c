#pragma once
#include <optional>
#include <utility>

#include "base/unique_fd.h"

namespace caisson::backend::native {

// A number for the networks of one owner's boxes, taken in this process's network namespace, where
// the tables and interfaces are that carry it. It is taken while anybody has the descriptor open:
// that is a netlink socket, and the kernel keeps an nftables table of that number's name for it,
// which nobody else can remove, and which goes with the socket. To make one takes CAP_NET_ADMIN, so
// that no other user of the host can hold numbers back.
class NetworkClaim {
 public:
  // Nothing when somebody has the number. Throws isolation_unavailable where there is no nftables.
  static std::optional<NetworkClaim> take(unsigned number);
  // The claim of an owner before us.
  NetworkClaim(unsigned number, UniqueFd socket) : number_(number), socket_(std::move(socket)) {}

  unsigned number() const { return number_; }
  int fd() const { return socket_.get(); }

 private:
  unsigned number_;
  UniqueFd socket_;
};

}  // namespace caisson::backend::native
