// The static program inside the caisson binary: the launcher that makes boxes and, in copies of
// itself, process 1 of each of them; and the keeper that holds what outlives an owner. It is
// started from a sealed memory file with its sockets, and an empty environment. Inside
// a box it is also what moves files.
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "guest/files.h"
#include "guest/keeper.h"
#include "guest/launcher.h"

int main(int argc, char** argv) {
  constexpr int kControl = 3;
  if (argc == 2 && std::string_view(argv[1]) == "launcher") {
    return caisson::guest::run_launcher(caisson::UniqueFd(kControl));
  }
  if (argc == 2 && std::string_view(argv[1]) == "keeper") {
    return caisson::guest::run_keeper(caisson::UniqueFd(kControl), caisson::UniqueFd(kControl + 1));
  }
  if (argc >= 2 && std::string_view(argv[1]) == "files") {
    return caisson::guest::run_files(argc, argv);
  }
  std::fputs("caisson-guest is started by caisson, not by hand\n", stderr);
  return 2;
}
