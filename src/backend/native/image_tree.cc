#include "backend/native/image_tree.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <climits>
#include <limits>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/str.h"
#include "base/text.h"

namespace caisson::backend::native {

namespace {

constexpr int kOpenDirectory = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

[[noreturn]] void refuse(std::string_view path, std::string_view why) {
  throw Error(ErrorCode::validation_error, str("entry \"", printable(path), "\" ", why));
}

[[noreturn]] void fail(const std::string& path, int error) {
  if (error == EEXIST) {
    refuse(path, "occurs twice; make the archive anew from the finished directory");
  }
  throw SystemError(str("entry \"", printable(path), "\""), error);
}

void check_entry(const std::string& path, int result) {
  if (result < 0) fail(path, errno);
}

}  // namespace

std::string entry_path(std::string_view raw) {
  std::string path;
  for (const std::string_view part : split(raw, '/')) {
    if (part.empty() || part == ".") continue;
    if (part == "..") refuse(raw, "leads outside of the image with \"..\"");
    if (!path.empty()) path.push_back('/');
    path.append(part);
  }
  if (path.size() >= PATH_MAX) refuse(raw, "has a path that is too long");
  return path;
}

TreeWriter::TreeWriter(int root, TreeLimits limits, TreeProgress progress)
    : root_(root),
      limits_(limits),
      progress_(std::move(progress)),
      privileged_(::geteuid() == 0),
      owners_kept_(privileged_) {}

void TreeWriter::count_entry(const std::string& path) {
  if (++count_.entries > limits_.entries) {
    throw Error(ErrorCode::validation_error, str("it has more than ", limits_.entries,
                                                 " entries; leave out what a box does not need"));
  }
  const auto slashes = std::count(path.begin(), path.end(), '/');
  if (static_cast<std::uint64_t>(slashes) >= limits_.depth) {
    refuse(path, str("is more than ", limits_.depth, " directories deep"));
  }
  if (progress_) progress_(count_);
}

void TreeWriter::count_bytes(std::uint64_t bytes) {
  if (bytes > limits_.bytes - count_.bytes) {
    throw Error(ErrorCode::validation_error, str("it has more than ", limits_.bytes,
                                                 " bytes; leave out what a box does not need"));
  }
  count_.bytes += bytes;
  if (progress_) progress_(count_);
}

UniqueFd TreeWriter::open_below(int directory, const std::string& name, const std::string& path,
                                bool make_parents) {
  int fd = ::openat(directory, name.c_str(), kOpenDirectory);
  if (fd < 0 && errno == ENOENT && make_parents) {
    check_entry(path, ::mkdirat(directory, name.c_str(), 0755));
    fd = ::openat(directory, name.c_str(), kOpenDirectory);
    // The umask does not decide what a box can read.
    if (fd >= 0) check_entry(path, ::fchmod(fd, 0755));
  }
  if (fd < 0 && (errno == ENOTDIR || errno == ELOOP)) {
    refuse(path, str("leads through \"", printable(name), "\", which is not a directory"));
  }
  check_entry(path, fd);
  return UniqueFd(fd);
}

TreeWriter::Place TreeWriter::place(const std::string& path, bool make_parents) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {root_, path};
  const std::string parent = path.substr(0, slash);
  // Directories are never replaced, so the descriptor stays the right one.
  if (parent != last_parent_) {
    UniqueFd current;
    for (const std::string_view part : split(parent, '/')) {
      const int from = current ? current.get() : root_;
      current = open_below(from, std::string(part), path, make_parents);
    }
    last_parent_fd_ = std::move(current);
    last_parent_ = parent;
  }
  return {last_parent_fd_.get(), path.substr(slash + 1)};
}

void TreeWriter::set_owner(int directory, const std::string& name, const std::string& path,
                           const EntryAttributes& attributes) {
  if (!privileged_) return;
  // The highest id means "leave it" to chown(2), so it cannot be an owner.
  constexpr std::int64_t kNobody = std::numeric_limits<std::uint32_t>::max();
  if (attributes.uid < 0 || attributes.uid >= kNobody || attributes.gid < 0 ||
      attributes.gid >= kNobody) {
    refuse(path, "has an owner that cannot exist");
  }
  const int flags = AT_SYMLINK_NOFOLLOW | (name.empty() ? AT_EMPTY_PATH : 0);
  const int result = ::fchownat(directory, name.c_str(), static_cast<uid_t>(attributes.uid),
                                static_cast<gid_t>(attributes.gid), flags);
  // Root of a user namespace that does not map the owner.
  if (result < 0 && (errno == EINVAL || errno == EPERM)) {
    owners_kept_ = false;
  } else {
    check_entry(path, result);
  }
}

void TreeWriter::add_directory(const std::string& path, const EntryAttributes& attributes) {
  count_entry(path);
  if (path.empty()) return;  // the root's own attributes are the store's affair
  const auto [directory, name] = place(path, true);
  if (::mkdirat(directory, name.c_str(), 0755) < 0 && errno != EEXIST) fail(path, errno);
  const UniqueFd fd = open_below(directory, name, path, false);
  set_owner(fd.get(), "", path, attributes);
  // An ordinary user must be able to fill the directory, and later to remove what is in it.
  const unsigned mode = (attributes.mode & 01777u) | (privileged_ ? 0u : 0700u);
  check_entry(path, ::fchmod(fd.get(), mode));
}

void TreeWriter::add_symlink(const std::string& path, const std::string& target,
                             const EntryAttributes& attributes) {
  count_entry(path);
  if (path.empty()) refuse("/", "is a symlink");
  if (target.empty()) refuse(path, "is a symlink to nothing");
  const auto [directory, name] = place(path, true);
  check_entry(path, ::symlinkat(target.c_str(), directory, name.c_str()));
  set_owner(directory, name, path, attributes);
  const timespec times[2] = {{.tv_nsec = UTIME_OMIT}, attributes.modified};
  check_entry(path, ::utimensat(directory, name.c_str(), times, AT_SYMLINK_NOFOLLOW));
}

void TreeWriter::add_hard_link(const std::string& path, const std::string& existing) {
  count_entry(path);
  if (path.empty() || existing.empty()) refuse(path, "is a hard link of the root");
  const Place from = place(existing, false);
  const UniqueFd source(
      ::openat(from.directory, from.name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  if (!source) {
    refuse(path, str("is a hard link to \"", printable(existing), "\", which is not before it"));
  }
  const UniqueFd source_directory = duplicate(from.directory, existing);
  check_entry(path, source_directory.get());
  const auto [directory, name] = place(path, true);
  // Without AT_SYMLINK_FOLLOW a link to a symlink is a second name of the symlink itself.
  const int result =
      ::linkat(source_directory.get(), from.name.c_str(), directory, name.c_str(), 0);
  if (result < 0 && errno == EPERM) refuse(path, "is a hard link to a directory");
  check_entry(path, result);
}

TreeWriter::File TreeWriter::add_file(const std::string& path, const EntryAttributes& attributes) {
  count_entry(path);
  if (path.empty()) refuse("/", "is a file");
  const auto [directory, name] = place(path, true);
  UniqueFd fd(::openat(directory, name.c_str(),
                       O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  check_entry(path, fd.get());
  return {*this, std::move(fd), path, attributes};
}

void TreeWriter::File::write_at(std::uint64_t offset, std::string_view data) {
  tree_.count_bytes(data.size());
  while (!data.empty()) {
    const ssize_t put = ::pwrite(fd_.get(), data.data(), data.size(), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail(path_, errno);
    data.remove_prefix(static_cast<std::size_t>(put));
    offset += static_cast<std::uint64_t>(put);
  }
  end_ = std::max(end_, offset);
}

void TreeWriter::File::finish(std::uint64_t size) {
  if (size > end_) {
    const bool too_large = size > static_cast<std::uint64_t>(std::numeric_limits<off_t>::max());
    if (too_large || ::ftruncate(fd_.get(), static_cast<off_t>(size)) < 0) {
      fail(path_, too_large ? EFBIG : errno);
    }
  }
  tree_.set_owner(fd_.get(), "", path_, attributes_);
  check_entry(path_, ::fchmod(fd_.get(), attributes_.mode & 01777u));
  const timespec times[2] = {{.tv_nsec = UTIME_OMIT}, attributes_.modified};
  check_entry(path_, ::futimens(fd_.get(), times));
}

}  // namespace caisson::backend::native
