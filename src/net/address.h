#pragma once
#include <string>

namespace caisson::net {

// Where a client connects to.
struct Address {
  std::string host;         // without brackets; empty for a unix socket
  std::string port;         //
  std::string unix_path;    //
  std::string host_header;  // what requests call it
};

// "http://127.0.0.1:5410" or "unix:/run/caisson/api.sock". Throws validation_error.
Address parse_address(const std::string& text);

}  // namespace caisson::net
