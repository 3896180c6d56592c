// Row I14: the program that core_pattern names runs as root, outside of every box, and a crash is
// its input. Boxes do not feed it.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/file.h"
#include "base/str.h"
#include "base/text.h"
#include "isolation.h"

namespace caisson::security_test {
namespace {

constexpr char kCorePattern[] = "/proc/sys/kernel/core_pattern";

// Pipes the cores of the host to a program that notes whose they are. It is the whole host's
// setting: as it was before when the object goes.
class PipedCores {
 public:
  PipedCores() : before_(trim(read_file(kCorePattern))) {
    const std::filesystem::path program = directory_.path() / "note";
    std::ofstream(program) << "#!/bin/sh\necho \"$1\" >> " << notes().native() << "\n";
    check_syscall("chmod", ::chmod(program.c_str(), 0755));
    write_control_file(kCorePattern, str("|", program.native(), " %e"));
  }
  PipedCores(const PipedCores&) = delete;
  PipedCores& operator=(const PipedCores&) = delete;
  ~PipedCores() { write_control_file(kCorePattern, before_); }

  // Of processes of this name. One that crashed is not reaped before its core was taken.
  std::size_t noted(std::string_view name) const {
    const std::string text = find_file_content(notes()).value_or("");
    const std::vector<std::string_view> lines = split(text, '\n');
    return static_cast<std::size_t>(std::count(lines.begin(), lines.end(), name));
  }

 private:
  std::filesystem::path notes() const { return directory_.path() / "notes"; }

  const TemporaryDirectory directory_{0755};
  const std::string before_;
};

class IsolationCores : public Isolation {};

TEST_F(IsolationCores, I14ACrashInABoxFeedsNoProgramThatCoresArePipedTo) {
  if (::access(kCorePattern, W_OK) != 0) GTEST_SKIP() << "core_pattern cannot be set here";
  const std::unique_ptr<backend::Box> box = create_box(spec());
  const PipedCores cores;
  const std::string of_host = str("host", ::getpid());
  const std::string of_box = str("box", ::getpid());
  // Outside a box a limit of 0 does not help.
  run_payload_on_host({"crash", of_host, "0"});
  EXPECT_EQ(cores.noted(of_host), 1u) << "this kernel does not pipe cores";
  for (const std::vector<std::string>& words : {std::vector<std::string>{"crash", of_box},
                                                {"crash", of_box, "0"},
                                                {"crash", of_box, "9"}}) {
    EXPECT_EQ(run_payload(*box, words).exit.signal, SIGABRT);
  }
  const std::string script = str("ulimit -c 0 && exec ", kPayload, " crash ", of_box);
  EXPECT_EQ(run(*box, {"/bin/sh", "-c", script}).exit.signal, SIGABRT);
  EXPECT_EQ(cores.noted(of_box), 0u) << "a box's crash was piped to a program of the host";
  destroy(*box);
}

}  // namespace
}  // namespace caisson::security_test
