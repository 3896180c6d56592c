#include "backend/native/image_import.h"

#include <archive.h>
#include <archive_entry.h>
#include <dirent.h>
#include <fcntl.h>

#include <algorithm>
#include <climits>
#include <map>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/str.h"
#include "base/text.h"

namespace caisson::backend::native {

namespace {

constexpr std::size_t kPieceBytes = 1u << 20;

bool is_digest(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

[[noreturn]] void refuse_layers() {
  throw Error(
      ErrorCode::validation_error,
      "it is an archive of image layers (docker save or OCI layout), not a root file system; "
      "make one with `docker export $(docker create IMAGE) > image.tar` and import that");
}

// Layers are told by the names of their files, so that gigabytes are not unpacked to be refused.
void check_for_layers(const std::string& path) {
  if (path == "oci-layout" || path == "blobs/sha256") refuse_layers();
  if (path.starts_with("blobs/sha256/")) refuse_layers();
  const bool in_top_directory = path.size() > 64 && path[64] == '/';
  if (in_top_directory && is_digest(path.substr(0, 64)) && path.substr(65) == "layer.tar") {
    refuse_layers();
  }
  if (path.size() == 68 && path.ends_with(".tar") && is_digest(path.substr(0, 64))) refuse_layers();
}

// The manifest of docker save, in case the layers themselves have names of another form.
void check_manifest(int root) {
  const UniqueFd fd(
      ::openat(root, "manifest.json", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!fd) return;
  std::string head(64u << 10, '\0');
  const ssize_t got = ::read(fd.get(), head.data(), head.size());
  head.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
  if (head.starts_with("[") && head.find("\"Layers\"") != std::string::npos) refuse_layers();
}

struct FreeArchive {
  void operator()(archive* reader) const { ::archive_read_free(reader); }
};
using Archive = std::unique_ptr<archive, FreeArchive>;

[[noreturn]] void fail_reading(archive* reader) {
  const char* why = ::archive_error_string(reader);
  throw Error(ErrorCode::validation_error,
              str("it is no directory, and no tar archive that can be read: ",
                  printable(why != nullptr ? why : "damaged")));
}

// Only what libarchive decodes by itself: its other filters start programs found in PATH.
Archive open_archive(int fd) {
  Archive reader(::archive_read_new());
  if (!reader) throw Error(ErrorCode::internal_error, "libarchive: no memory for a reader");
  ::archive_read_support_format_tar(reader.get());
  ::archive_read_support_filter_gzip(reader.get());
  ::archive_read_support_filter_bzip2(reader.get());
  ::archive_read_support_filter_compress(reader.get());
  ::archive_read_support_filter_xz(reader.get());
  ::archive_read_support_filter_lzma(reader.get());
  ::archive_read_support_filter_lzip(reader.get());
  ::archive_read_support_filter_lz4(reader.get());
  ::archive_read_support_filter_zstd(reader.get());
  if (::archive_read_open_fd(reader.get(), fd, kPieceBytes) != ARCHIVE_OK) {
    fail_reading(reader.get());
  }
  return reader;
}

class ArchiveImport {
 public:
  ArchiveImport(int fd, TreeWriter& tree) : reader_(open_archive(fd)), tree_(tree) {}

  ImportOutcome run() {
    archive_entry* entry = nullptr;
    for (;;) {
      const int result = ::archive_read_next_header(reader_.get(), &entry);
      if (result == ARCHIVE_EOF) break;
      // A warning is about a name that the locale cannot show; the bytes of the name are there.
      if (result != ARCHIVE_OK && result != ARCHIVE_WARN) fail_reading(reader_.get());
      add(entry);
    }
    if (tree_.count().entries == 0) {
      throw Error(ErrorCode::validation_error, "the tar archive is empty");
    }
    return outcome_;
  }

 private:
  void add(archive_entry* entry) {
    const char* name = ::archive_entry_pathname(entry);
    if (name == nullptr) throw Error(ErrorCode::validation_error, "an entry has no usable name");
    const std::string path = entry_path(name);
    check_for_layers(path);
    const EntryAttributes attributes{.mode = static_cast<unsigned>(::archive_entry_perm(entry)),
                                     .uid = ::archive_entry_uid(entry),
                                     .gid = ::archive_entry_gid(entry),
                                     .modified = {.tv_sec = ::archive_entry_mtime(entry),
                                                  .tv_nsec = ::archive_entry_mtime_nsec(entry)}};
    if (const char* existing = ::archive_entry_hardlink(entry)) {
      tree_.add_hard_link(path, entry_path(existing));
      drain();
      return;
    }
    switch (::archive_entry_filetype(entry)) {
      case AE_IFREG:
        add_file(path, attributes, entry);
        return;
      case AE_IFDIR:
        tree_.add_directory(path, attributes);
        break;
      case AE_IFLNK: {
        const char* target = ::archive_entry_symlink(entry);
        tree_.add_symlink(path, target != nullptr ? target : "", attributes);
        break;
      }
      default:
        tree_.count_entry(path);
        ++outcome_.skipped;
        break;
    }
    drain();
  }

  void add_file(const std::string& path, const EntryAttributes& attributes, archive_entry* entry) {
    TreeWriter::File file = tree_.add_file(path, attributes);
    for_each_block(
        [&](std::uint64_t offset, std::string_view data) { file.write_at(offset, data); });
    file.finish(static_cast<std::uint64_t>(std::max<std::int64_t>(0, ::archive_entry_size(entry))));
  }

  // Content that is not kept is still read piece by piece, so that it counts towards the limit.
  void drain() {
    for_each_block([&](std::uint64_t, std::string_view data) { tree_.count_bytes(data.size()); });
  }

  template <typename Use>
  void for_each_block(Use use) {
    for (;;) {
      const void* data = nullptr;
      std::size_t size = 0;
      la_int64_t offset = 0;
      const int result = ::archive_read_data_block(reader_.get(), &data, &size, &offset);
      if (result == ARCHIVE_EOF) return;
      if (result != ARCHIVE_OK || offset < 0) fail_reading(reader_.get());
      use(static_cast<std::uint64_t>(offset),
          std::string_view(static_cast<const char*>(data), size));
    }
  }

  Archive reader_;
  TreeWriter& tree_;
  ImportOutcome outcome_{.source = ImageSource::archive};
};

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

class DirectoryImport {
 public:
  DirectoryImport(TreeWriter& tree, const struct stat& avoid) : tree_(tree), avoid_(avoid) {}

  ImportOutcome run(UniqueFd root, const struct stat& info) {
    device_ = info.st_dev;
    copy_content(std::move(root), "");
    return outcome_;
  }

 private:
  void copy_content(UniqueFd fd, const std::string& path) {
    const std::unique_ptr<DIR, CloseDirectory> stream(::fdopendir(fd.get()));
    if (!stream) throw SystemError(str("/", path), errno);
    const int directory = fd.release();
    for (;;) {
      errno = 0;
      const dirent* entry = ::readdir(stream.get());
      if (entry == nullptr) break;
      const std::string name = entry->d_name;
      if (name != "." && name != "..") {
        copy_entry(directory, name, path.empty() ? name : str(path, "/", name));
      }
    }
    if (errno != 0) throw SystemError(str("/", path), errno);
  }

  void copy_entry(int directory, const std::string& name, const std::string& path) {
    struct stat info {};
    check_syscall(path, ::fstatat(directory, name.c_str(), &info, AT_SYMLINK_NOFOLLOW));
    if (info.st_dev == avoid_.st_dev && info.st_ino == avoid_.st_ino) return;
    check_for_layers(path);
    const EntryAttributes attributes{.mode = info.st_mode & 07777u,
                                     .uid = info.st_uid,
                                     .gid = info.st_gid,
                                     .modified = info.st_mtim};
    if (S_ISDIR(info.st_mode)) {
      tree_.add_directory(path, attributes);
      copy_directory(directory, name, path, info);
      return;
    }
    if (info.st_nlink > 1 && !is_special(info)) {
      const auto [seen, first] = linked_.try_emplace({info.st_dev, info.st_ino}, path);
      if (!first) return tree_.add_hard_link(path, seen->second);
    }
    if (S_ISLNK(info.st_mode)) {
      tree_.add_symlink(path, read_link(directory, name, path, info), attributes);
    } else if (S_ISREG(info.st_mode)) {
      copy_file(directory, name, path, attributes);
    } else {
      tree_.count_entry(path);
      ++outcome_.skipped;
    }
  }

  static bool is_special(const struct stat& info) {
    return !S_ISREG(info.st_mode) && !S_ISLNK(info.st_mode);
  }

  void copy_directory(int directory, const std::string& name, const std::string& path,
                      const struct stat& info) {
    if (info.st_dev != device_) {
      ++outcome_.mount_points;
      return;
    }
    copy_content(open_source(directory, name, path, O_DIRECTORY), path);
  }

  static UniqueFd open_source(int directory, const std::string& name, const std::string& path,
                              int flags) {
    UniqueFd fd(::openat(directory, name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | flags));
    check_syscall(path, fd.get());
    return fd;
  }

  static std::string read_link(int directory, const std::string& name, const std::string& path,
                               const struct stat& info) {
    std::string target(static_cast<std::size_t>(std::max<off_t>(info.st_size, PATH_MAX)), '\0');
    const ssize_t length =
        check_syscall(path, ::readlinkat(directory, name.c_str(), target.data(), target.size()));
    target.resize(static_cast<std::size_t>(length));
    return target;
  }

  // Holes stay holes: files such as /var/log/lastlog are far larger than what they hold.
  void copy_file(int directory, const std::string& name, const std::string& path,
                 const EntryAttributes& attributes) {
    // Not blocking: the file may have become a fifo since it was looked at.
    const UniqueFd fd = open_source(directory, name, path, O_NONBLOCK);
    struct stat info {};
    check_syscall(path, ::fstat(fd.get(), &info));
    if (!S_ISREG(info.st_mode)) {
      throw Error(ErrorCode::validation_error,
                  str(printable(path), ": changed while it was copied"));
    }
    TreeWriter::File file = tree_.add_file(path, attributes);
    off_t offset = 0;
    for (;;) {
      const off_t data = ::lseek(fd.get(), offset, SEEK_DATA);
      if (data < 0 && errno == ENXIO) break;  // a hole up to the end
      check_syscall(path, data);
      const off_t hole = check_syscall(path, ::lseek(fd.get(), data, SEEK_HOLE));
      offset = copy_range(fd.get(), path, file, data, hole);
      if (offset < hole) break;  // cut short while it was copied
    }
    file.finish(static_cast<std::uint64_t>(info.st_size));
  }

  off_t copy_range(int fd, const std::string& path, TreeWriter::File& file, off_t from, off_t to) {
    while (from < to) {
      const auto wanted =
          std::min<std::size_t>(buffer_.size(), static_cast<std::size_t>(to - from));
      const ssize_t got = ::pread(fd, buffer_.data(), wanted, from);
      if (got < 0 && errno == EINTR) continue;
      check_syscall(path, got);
      if (got == 0) break;
      file.write_at(static_cast<std::uint64_t>(from),
                    {buffer_.data(), static_cast<std::size_t>(got)});
      from += got;
    }
    return from;
  }

  TreeWriter& tree_;
  const struct stat& avoid_;
  dev_t device_ = 0;
  std::map<std::pair<dev_t, ino_t>, std::string>
      linked_;  // files with several names: the first one
  std::string buffer_ = std::string(kPieceBytes, '\0');
  ImportOutcome outcome_{.source = ImageSource::directory};
};

}  // namespace

ImportOutcome import_source(const std::filesystem::path& source, TreeWriter& tree,
                            const struct stat& avoid) {
  UniqueFd fd(::open(source.c_str(), O_RDONLY | O_NOCTTY | O_CLOEXEC));
  struct stat info {};
  if (!fd || ::fstat(fd.get(), &info) < 0) {
    throw Error(ErrorCode::validation_error, str("it cannot be opened: ", error_text(errno)));
  }
  ImportOutcome outcome;
  if (S_ISDIR(info.st_mode)) {
    outcome = DirectoryImport(tree, avoid).run(std::move(fd), info);
  } else if (S_ISREG(info.st_mode) || S_ISFIFO(info.st_mode)) {
    outcome = ArchiveImport(fd.get(), tree).run();
  } else {
    throw Error(ErrorCode::validation_error, "it is neither a directory nor a tar archive");
  }
  check_manifest(tree.root());
  return outcome;
}

}  // namespace caisson::backend::native
