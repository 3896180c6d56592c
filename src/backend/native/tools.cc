#include "backend/native/tools.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <span>
#include <utility>

#include "backend/native/drafts.h"
#include "base/child_process.h"
#include "base/error.h"
#include "base/file.h"
#include "base/str.h"
#include "base/text.h"

namespace caisson::backend::native {

namespace fs = std::filesystem;

namespace {

constexpr int kOpenDirectory = O_RDONLY | O_DIRECTORY | O_NOFOLLOW;
constexpr int kRequirementsFd = 3;
constexpr int kTargetFd = 4;
constexpr int kNotFound = 127;
constexpr std::string_view kAgain = "; then run `caisson image tools`";

// Ours alone: whoever else could write there could choose what boxes run.
UniqueFd open_own(int parent, const std::string& name, const fs::path& path, unsigned mode) {
  if (::mkdirat(parent, name.c_str(), mode) < 0 && errno != EEXIST) {
    throw SystemError(path.native(), errno);
  }
  UniqueFd directory = open_file_at(parent, name, kOpenDirectory);
  struct stat info {};
  check_syscall(path.native(), ::fstat(directory.get(), &info));
  if (info.st_uid != ::geteuid() || (info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    throw Error(ErrorCode::forbidden,
                str(path.native(),
                    " belongs to somebody else, or others may write there: remove it", kAgain));
  }
  if ((info.st_mode & 07777u) != mode) {  // the umask has no say
    check_syscall(path.native(), ::fchmod(directory.get(), mode));
  }
  return directory;
}

// What is about the place of an installation would put it elsewhere, or nowhere.
bool leads_astray(std::string_view variable) {
  constexpr std::string_view kPip[] = {
      "TARGET", "USER", "PREFIX", "ROOT", "DRY_RUN", "PYTHON", "REQUIRE_VIRTUALENV"};
  const std::string_view name = variable.substr(0, variable.find('='));
  if (name == "PATH" || name == "LC_ALL" || name.starts_with("PYTHON")) return true;
  if (!name.starts_with("PIP_")) return false;
  return std::ranges::find(kPip, name.substr(4)) != std::end(kPip);
}

// Indexes, proxies and certificates are as the host's own pip has them.
std::vector<std::string> environment() {
  std::vector<std::string> env = {"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C.UTF-8",
                                  "PIP_ROOT_USER_ACTION=ignore"};
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!leads_astray(*entry)) env.emplace_back(*entry);
  }
  return env;
}

// Isolated: what lies in the working directory, or in a home directory, is not run.
std::vector<std::string> pip_command(bool shows_progress) {
  std::vector<std::string> argv = {"/bin/sh", "-c",     "umask 022 && cd / && exec \"$0\" \"$@\"",
                                   "python3", "-I",     "-m",
                                   "pip",     "install"};
  for (const char* option :
       {"--disable-pip-version-check", "--no-input", "--no-deps", "--no-compile",
        "--require-hashes", "--only-binary=:all:", "--no-warn-script-location"}) {
    argv.emplace_back(option);
  }
  if (!shows_progress) argv.emplace_back("--quiet");
  argv.push_back(str("--requirement=/proc/self/fd/", kRequirementsFd));
  argv.push_back(str("--target=/proc/self/fd/", kTargetFd));
  return argv;
}

// False: the caller is to stop instead.
bool wait_for(const ChildProcess& child, int stop) {
  pollfd both[] = {{child.pidfd(), POLLIN, 0}, {stop, POLLIN, 0}};  // -1 is passed over
  for (;;) {
    const int ready = ::poll(&both[0], std::size(both), -1);
    if (ready < 0 && errno != EINTR) throw SystemError("wait for pip", errno);
    if (ready > 0 && both[0].revents != 0) return true;
    if (ready > 0 && both[1].revents != 0) return false;
  }
}

// The last lines are those that say why.
std::string last_words(std::string_view said) {
  constexpr std::size_t kLines = 3;
  std::vector<std::string> lines;
  for (const std::string_view line : split(said, '\n')) {
    if (!trim(line).empty()) lines.push_back(printable(trim(line), 300));
  }
  if (lines.size() > kLines) lines.erase(lines.begin(), lines.end() - kLines);
  return lines.empty() ? "it gave no reason" : join(lines, " ");
}

}  // namespace

Error fetch_error(int status, const std::string& said, const std::string& set) {
  const bool not_found = WIFEXITED(status) && WEXITSTATUS(status) == kNotFound;
  std::string text;
  if (not_found) {
    text = str("the host has no python3: apt-get install python3 python3-pip python3-venv", kAgain);
  } else if (said.find("No module named pip") != std::string::npos) {
    text = str("the host's python3 has no pip: apt-get install python3-pip", kAgain);
  } else if (said.find("No space left") != std::string::npos) {
    return {ErrorCode::storage_full, str("tools ", set, ": no space left to fetch them")};
  } else {
    text = str("pip could not install them: ", last_words(said),
               "; when the package index can be reached, run `caisson image tools`");
  }
  return {ErrorCode::backend_unavailable, str("tools ", set, " were not fetched: ", text)};
}

// Open directories, so that what was judged is what is used.
struct Tools::Place {
  UniqueFd tools;
  UniqueFd shown;
};

Tools::Tools(const fs::path& state_dir, ToolSet set)
    : place_(state_dir / "tools"), set_(std::move(set)) {}

bool Tools::fetched() const {
  struct stat info {};
  return ::lstat(directory().c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

Tools::Place Tools::open_place(bool make_state) const {
  if (make_state) {
    std::error_code failure;
    fs::create_directories(place_.parent_path(), failure);
    if (failure) throw SystemError(place_.parent_path().native(), failure.value());
  }
  const UniqueFd state = open_file(place_.parent_path(), O_RDONLY | O_DIRECTORY);
  Place place;
  place.tools = open_own(state.get(), "tools", place_, 0700);
  place.shown = open_own(place.tools.get(), "shown", place_ / "shown", 0755);
  return place;
}

std::optional<Tools::Shown> Tools::shown() const {
  try {
    const Place place = open_place(false);
    struct stat info {};
    check_syscall(place_.native(), ::fstat(place.shown.get(), &info));
    return Shown{.path = (place_ / "shown").native(), .device = info.st_dev, .inode = info.st_ino};
  } catch (const Error&) {
    // Boxes do without; what they lack says what to do about it.
    return std::nullopt;
  }
}

bool Tools::fetch(const Fetch& how) const {
  const Place place = open_place(true);
  if (fetched()) return false;
  UniqueFd lock = open_file_at(place.tools.get(), ".lock", O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
  check_syscall(place_.native(), ::flock(lock.get(), LOCK_EX));
  const std::vector<Leftover> leftovers = find_leftovers(place_, place.tools.get());
  const std::string draft = random_name(kDraftPrefix);
  check_syscall(place_.native(), ::mkdirat(place.tools.get(), draft.c_str(), 0700));
  const UniqueFd directory = open_file_at(place.tools.get(), draft, kOpenDirectory);
  try_lock(directory.get());
  lock.reset();
  for (const Leftover& leftover : leftovers) remove_leftover(place.tools.get(), leftover.name);
  try {
    fill(directory.get(), how);
    publish(place, draft);
  } catch (...) {
    remove_leftover(place.tools.get(), draft);
    throw;
  }
  remove_older(place);
  return true;
}

void Tools::fill(int draft, const Fetch& how) const {
  const UniqueFd null = open_file("/dev/null", O_RDWR);
  const UniqueFd requirements = sealed_memory_file(
      "requirements", std::as_bytes(std::span(set_.requirements.data(), set_.requirements.size())));
  const UniqueFd said = memory_file("pip");
  Command pip;
  pip.argv = pip_command(how.progress >= 0);
  pip.env = environment();
  pip.fds = {{null.get(), 0},
             {how.progress >= 0 ? how.progress : null.get(), 1},
             {said.get(), 2},
             {requirements.get(), kRequirementsFd},
             {draft, kTargetFd}};
  ChildProcess child = spawn(pip);
  if (!wait_for(child, how.stop)) {
    throw Error(ErrorCode::cancelled, str("fetching the tools ", set_.name, " was interrupted"));
  }
  const int status = child.wait();
  check_syscall("pip", ::lseek(said.get(), 0, SEEK_SET));
  if (status != 0) throw fetch_error(status, read_all(said.get(), "pip"), set_.name);
  for (const std::string& file : set_.files) {
    struct stat info {};
    const bool there = ::fstatat(draft, file.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0;
    if (there && S_ISREG(info.st_mode) && (info.st_mode & S_IROTH) != 0) continue;
    throw Error(ErrorCode::backend_unavailable,
                str("tools ", set_.name, " were not fetched: pip installed no ", file));
  }
  check_syscall("tools", ::fchmod(draft, 0755));
  check_syscall("write the tools to disk", ::syncfs(draft));
}

// Who comes second finds the same there.
void Tools::publish(const Place& place, const std::string& draft) const {
  if (::renameat(place.tools.get(), draft.c_str(), place.shown.get(), set_.name.c_str()) == 0) {
    check_syscall(place_.native(), ::fsync(place.shown.get()));
  } else if (errno == EEXIST || errno == ENOTEMPTY) {
    remove_leftover(place.tools.get(), draft);
  } else {
    throw SystemError(directory().native(), errno);
  }
}

// Boxes that an older Caisson made may run on, with the set before this one.
void Tools::remove_older(const Place& place) const {
  std::vector<std::pair<std::int64_t, std::string>> others;
  for (const std::string& name : names_in(place_ / "shown")) {
    struct stat info {};
    if (name == set_.name) continue;
    if (::fstatat(place.shown.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) < 0) continue;
    others.emplace_back(info.st_ctim.tv_sec, name);
  }
  std::sort(others.rbegin(), others.rend());
  for (std::size_t i = 1; i < others.size(); ++i) {
    const std::string aside = random_name(kRemovedPrefix);
    const std::string& name = others[i].second;
    if (::renameat(place.shown.get(), name.c_str(), place.tools.get(), aside.c_str()) == 0) {
      remove_leftover(place.tools.get(), aside);
    }
  }
}

}  // namespace caisson::backend::native
