#include "net/address.h"

#include <sys/un.h>

#include "base/error.h"
#include "base/str.h"
#include "base/text.h"
#include "net/guard.h"

namespace caisson::net {

Address parse_address(const std::string& text) {
  constexpr std::string_view kUnix = "unix:";
  constexpr std::string_view kHttp = "http://";
  Address address;
  if (text.starts_with(kUnix)) {
    address.unix_path = text.substr(kUnix.size());
    address.host_header = "localhost";
    if (address.unix_path.starts_with('/') &&
        address.unix_path.size() < sizeof(sockaddr_un::sun_path)) {
      return address;
    }
  } else if (text.starts_with(kHttp)) {
    std::string_view rest = std::string_view(text).substr(kHttp.size());
    if (rest.ends_with('/')) rest.remove_suffix(1);
    if (const auto authority = normalise_authority(rest)) {
      address.host = authority->host;
      address.host_header = str(authority->host, ":", authority->port);
      address.port = std::to_string(authority->port);
      if (address.host.starts_with('[')) {
        address.host = address.host.substr(1, address.host.size() - 2);
      }
      return address;
    }
  }
  throw Error(ErrorCode::validation_error,
              str("\"", printable(text),
                  "\" is no address of a server; give http://HOST:PORT or unix:/PATH"));
}

}  // namespace caisson::net
