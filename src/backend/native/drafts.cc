#include "backend/native/drafts.h"

#include <fcntl.h>
#include <sys/file.h>

#include <utility>

#include "base/directory.h"
#include "base/error.h"
#include "base/log.h"
#include "base/random.h"
#include "base/str.h"

namespace caisson::backend::native {

namespace fs = std::filesystem;

std::string random_name(std::string_view prefix) {
  return str(prefix, random_hex(8));
}

bool try_lock(int directory) {
  if (::flock(directory, LOCK_EX | LOCK_NB) == 0) return true;
  if (errno != EWOULDBLOCK) throw SystemError("lock a directory", errno);
  return false;
}

std::vector<Leftover> find_leftovers(const fs::path& place, int place_fd) {
  std::vector<Leftover> leftovers;
  for (std::string& name : names_in(place)) {
    if (!name.starts_with(kDraftPrefix) && !name.starts_with(kRemovedPrefix)) continue;
    UniqueFd fd(::openat(place_fd, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (fd && try_lock(fd.get())) leftovers.push_back({std::move(fd), std::move(name)});
  }
  return leftovers;
}

void remove_leftover(int place, const std::string& name) {
  try {
    remove_tree(place, name);
  } catch (const Error& error) {
    log::warning("a leftover stays", "directory", name, "reason", error.what());
  }
}

std::vector<std::string> names_in(const fs::path& directory) {
  std::vector<std::string> names;
  std::error_code failure;
  fs::directory_iterator entry(directory, failure);
  for (; !failure && entry != fs::directory_iterator(); entry.increment(failure)) {
    names.push_back(entry->path().filename().native());
  }
  if (failure && failure.value() != ENOENT) throw SystemError(directory.native(), failure.value());
  return names;
}

}  // namespace caisson::backend::native
