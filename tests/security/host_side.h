#pragma once
#include <sys/types.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/temporary_directory.h"
#include "base/unique_fd.h"

namespace caisson::security_test {

// Arguments of checks, by the name of the check.
using CheckArguments = std::map<std::string, std::string, std::less<>>;

// What lies about on the host for a box to find: an abstract socket, a SysV segment, listeners on
// loopback and on every address, a file that everybody may read, a secret in the environment. All
// of it is gone with the object.
class HostSide {
 public:
  HostSide();
  HostSide(const HostSide&) = delete;
  HostSide& operator=(const HostSide&) = delete;
  ~HostSide();

  // Tells each host_* check what to look for.
  const CheckArguments& arguments() const { return arguments_; }

 private:
  void share_memory();
  void listen_on_loopback();
  void listen_on_every_address();

  const TemporaryDirectory directory_{0755};
  std::vector<UniqueFd> listeners_;
  int segment_ = -1;
  CheckArguments arguments_;
};

// What a check is called and which rows of the isolation table it proves.
struct ListedCheck {
  std::string name;
  std::vector<std::string> rows;
};

// All checks of the payload program, as it lists them itself.
const std::vector<ListedCheck>& listed_checks();

struct HostRun {
  std::string output;
  int exit_code = -1;
};

// Runs the payload program here, outside any box, with this process's environment.
HostRun run_payload_on_host(std::vector<std::string> words);

}  // namespace caisson::security_test
