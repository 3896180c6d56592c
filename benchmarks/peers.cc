#include "peers.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "base/str.h"
#include "base/text.h"
#include "host_command.h"

namespace caisson::benchmarks {

namespace fs = std::filesystem;

namespace {

constexpr auto kProbeTimeout = std::chrono::seconds(20);

void append(std::vector<std::string>& words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
}

// Calls `link(path, content)` or `directory(path)` for what the host has beside /usr of programs
// and libraries.
template <typename Link, typename Directory>
void for_each_system_directory(Link link, Directory directory) {
  for (const char* path : {"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"}) {
    std::error_code error;
    const fs::file_status status = fs::symlink_status(path, error);
    if (fs::is_symlink(status)) {
      link(path, fs::read_symlink(path).native());
    } else if (fs::is_directory(status)) {
      directory(path);
    }
  }
}

}  // namespace

Contender PeerCommand::contender() {
  return {.run =
              [this](bool counts) {
                const double took = milliseconds_of([&] { run_checked(argv); });
                if (counts) samples.add(took);
              },
          .every = every};
}

std::vector<std::string> bwrap_command() {
  std::vector<std::string> words{
      "bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--ro-bind", "/usr", "/usr"};
  for_each_system_directory(
      [&](const char* path, const std::string& content) {
        append(words, {"--symlink", content, path});
      },
      [&](const char* path) {
        append(words, {"--ro-bind", path, path});
      });
  append(words, {"--ro-bind", "/etc", "/etc", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp",
                 "--tmpfs", "/workspace", "--chdir", "/workspace", "--hostname", "box"});
  append(words, trivial_command());
  return words;
}

std::vector<std::string> nsjail_command() {
  std::vector<std::string> words{"nsjail", "--mode", "o", "--really_quiet", "-R", "/usr"};
  for_each_system_directory(
      [&](const char* path, const std::string& content) {
        append(words, {"-s", str(content, ":", path)});
      },
      [&](const char* path) {
        append(words, {"-R", path});
      });
  append(words, {"-R", "/etc", "-R", "/dev/null", "-R", "/dev/zero", "-R", "/dev/urandom", "-T",
                 "/tmp", "-T", "/workspace", "--cwd", "/workspace", "--hostname", "box", "--"});
  append(words, trivial_command());
  return words;
}

std::optional<PeerCommand> probe_peer(const std::string& name, const std::vector<std::string>& argv,
                                      Report& report) {
  const auto without = [&](const std::string& why) {
    report.note(str(name, " was not measured: ", why));
    return std::nullopt;
  };
  if (!is_installed(argv[0])) return without(str(argv[0], " is not installed"));
  try {
    const Captured captured = run_captured(argv, Spawn::posix_spawn, kProbeTimeout);
    if (captured.timed_out) return without("it did not end within 20 seconds");
    if (captured.status != 0) {
      return without(str("it does not work here: ", printable(trim(captured.err))));
    }
  } catch (const Error& error) {
    return without(error.what());
  }
  return PeerCommand{.name = name, .argv = argv};
}

bool is_installed(const std::string& program) {
  const char* path = std::getenv("PATH");
  for (const std::string_view directory : split(path == nullptr ? "" : path, ':')) {
    if (directory.empty()) continue;
    if (::access(str(directory, "/", program).c_str(), X_OK) == 0) return true;
  }
  return false;
}

}  // namespace caisson::benchmarks
