#include "quota/tool.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/child_process.h"
#include "base/error.h"
#include "base/file.h"
#include "base/str.h"

namespace caisson::quota {

std::optional<std::string> find_tool(const std::string& name) {
  for (const char* directory : {"/usr/sbin/", "/sbin/", "/usr/bin/", "/bin/", "/usr/local/sbin/"}) {
    std::string path = str(directory, name);
    if (::access(path.c_str(), X_OK) == 0) return path;
  }
  return std::nullopt;
}

int run_tool(const std::vector<std::string>& argv, std::string& said) {
  const UniqueFd null = open_file("/dev/null", O_RDONLY);
  const UniqueFd output = memory_file("tool");
  Command command;
  command.argv = argv;
  command.env = {"LC_ALL=C", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"};
  command.fds = {{null.get(), 0}, {output.get(), 1}, {output.get(), 2}};
  const int status = spawn(command).wait();
  check_syscall(argv.front(), ::lseek(output.get(), 0, SEEK_SET));
  said = read_all(output.get(), argv.front());
  return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

}  // namespace caisson::quota
