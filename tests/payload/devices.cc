// Row I6: /dev holds what programs need and nothing else, and nothing can be added.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <set>

#include "base/unique_fd.h"
#include "check.h"
#include "support.h"

namespace caisson::payload {
namespace {

constexpr unsigned kPtsMajor = 136;

Outcome dev_extra(Argument) {
  static const std::set<std::string> kExpected = {"null",  "zero",   "full",  "random", "urandom",
                                                  "tty",   "ptmx",   "pts",   "shm",    "fd",
                                                  "stdin", "stdout", "stderr"};
  std::string extra;
  for (const std::string& name : names_in("/dev")) {
    if (!kExpected.contains(name)) extra += name + " ";
  }
  return extra.empty() ? denied("nothing but the usual nodes") : allowed(extra);
}

using Visit = void (*)(const std::string& path, const struct stat& status, std::string& found);

// Device nodes below /dev, links not followed.
void visit_nodes(const std::string& directory, Visit visit, std::string& found) {
  for (const std::string& name : names_in(directory)) {
    const std::string path = directory + "/" + name;
    struct stat status {};
    if (::lstat(path.c_str(), &status) < 0) continue;
    if (S_ISDIR(status.st_mode)) visit_nodes(path, visit, found);
    if (S_ISCHR(status.st_mode) || S_ISBLK(status.st_mode)) visit(path, status, found);
  }
}

void note_unknown(const std::string& path, const struct stat& status, std::string& found) {
  static const std::map<std::string, dev_t> kNodes = {
      {"/dev/null", makedev(1, 3)},   {"/dev/zero", makedev(1, 5)},    {"/dev/full", makedev(1, 7)},
      {"/dev/random", makedev(1, 8)}, {"/dev/urandom", makedev(1, 9)}, {"/dev/tty", makedev(5, 0)},
      {"/dev/ptmx", makedev(5, 2)},   {"/dev/pts/ptmx", makedev(5, 2)}};
  const auto known = kNodes.find(path);
  const bool expected = known != kNodes.end() && known->second == status.st_rdev;
  const bool terminal = path.starts_with("/dev/pts/") && major(status.st_rdev) == kPtsMajor;
  if (S_ISBLK(status.st_mode) || (!expected && !terminal)) found += path + " ";
}

Outcome dev_special(Argument) {
  std::string found;
  visit_nodes("/dev", note_unknown, found);
  return found.empty() ? denied("every node is what its name says") : allowed(found);
}

void note_block_device(const std::string& path, const struct stat& status, std::string& found) {
  if (!S_ISBLK(status.st_mode)) return;
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (fd) found += path + " ";
}

Outcome open_block_device(Argument) {
  std::string found;
  visit_nodes("/dev", note_block_device, found);
  return found.empty() ? denied("none opens") : allowed(found);
}

// The node is never opened, and gone at the end.
Outcome make_node(mode_t type, dev_t device) {
  std::string refusal;
  for (const std::string& place : writable_places()) {
    const TempDir directory(place);
    if (!directory.valid()) continue;
    const Outcome outcome = judge(::mknod(directory.file("node").c_str(), type | 0600, device));
    if (outcome.verdict != Verdict::denied) return outcome;
    refusal = outcome.detail;
  }
  return refusal.empty() ? broken("no writable place") : denied(refusal);
}

Outcome mknod_char(Argument) {
  return make_node(S_IFCHR, makedev(1, 3));
}
Outcome mknod_block(Argument) {
  return make_node(S_IFBLK, makedev(7, 255));
}
Outcome mknod_mem(Argument) {
  return make_node(S_IFCHR, makedev(1, 1));
}

constexpr Check kChecks[] = {
    {"I06", "dev_extra", dev_extra},   {"I06", "dev_special", dev_special},
    {"I06", "mknod_char", mknod_char}, {"I06", "mknod_block", mknod_block},
    {"I06", "mknod_mem", mknod_mem},   {"I06", "open_block_device", open_block_device},
};

}  // namespace

std::span<const Check> device_checks() {
  return kChecks;
}

}  // namespace caisson::payload
