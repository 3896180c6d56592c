#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"

namespace caisson::backend::native {

// Programs that are fetched together, by the host's pip, and shown to boxes as one directory.
struct ToolSet {
  std::string name;                // of the directory
  std::string requirements;        // for pip: exact versions, each with the hashes it may have
  std::vector<std::string> files;  // programs that must be there afterwards
};

// uv, node with npm, and pip, as this release of Caisson knows them.
const ToolSet& pinned_tools();

// Why pip did not install them, and the next step; `status` is as of waitpid(2).
Error fetch_error(int status, const std::string& said, const std::string& set);

// The tools of one state directory, in tools/shown/<set>. A set is there as a whole or not at all,
// also after a crash; several processes may fetch at once, and the first one to end wins. Boxes see
// tools/shown itself: what is fetched is in those that run already, too. Nothing in it changes
// once it is there. Methods that do something block.
class Tools {
 public:
  explicit Tools(const std::filesystem::path& state_dir, ToolSet set = pinned_tools());

  const ToolSet& set() const { return set_; }
  std::filesystem::path directory() const { return place_ / "shown" / set_.name; }
  bool fetched() const;

  // What boxes are shown. It is made where there is a state directory. nullopt where there is none,
  // and when somebody else could have put something there.
  struct Shown {
    std::string path;
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
  };
  std::optional<Shown> shown() const;

  struct Fetch {
    int progress = -1;  // a terminal that pip may draw on
    int stop = -1;      // readable: give up
  };
  // False when it was there already. Throws backend_unavailable with the cause and the next step:
  // there is no pip, no index can be reached, what came is not what was asked for; cancelled;
  // storage_full. Nothing is left then that boxes could see.
  bool fetch(const Fetch& how) const;

 private:
  struct Place;
  Place open_place(bool make_state) const;
  void fill(int draft, const Fetch& how) const;
  void publish(const Place& place, const std::string& draft) const;
  void remove_older(const Place& place) const;

  std::filesystem::path place_;
  ToolSet set_;
};

}  // namespace caisson::backend::native
