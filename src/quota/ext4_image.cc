#include "quota/ext4_image.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/str.h"
#include "base/text.h"
#include "quota/tool.h"

namespace caisson::quota {

namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMiB = 1u << 20;
constexpr std::uint64_t kGroupBytes = 128 * kMiB;  // 32768 blocks, what one bitmap block covers
constexpr std::uint64_t kInodesInGroup = 32'000;   // of 32768 at most
constexpr std::uint64_t kInodeBytes = 256;
constexpr std::uint64_t kGroupOwnBytes = 64 << 10;  // bitmaps, descriptor, copies, rounded inodes
constexpr std::uint64_t kMostKeptBack = 16 * kMiB;

// Documentation/filesystems/ext4/super.rst
constexpr std::size_t kSuperblock = 1024;
constexpr std::size_t kMagic = kSuperblock + 0x38;
constexpr std::size_t kState = kSuperblock + 0x3a;
constexpr std::size_t kIncompatible = kSuperblock + 0x60;
constexpr unsigned kStateClean = 1;
constexpr unsigned kStateErrors = 2;
constexpr unsigned kJournalInUse = 4;

unsigned byte_at(std::string_view bytes, std::size_t at) {
  return static_cast<unsigned char>(bytes[at]);
}

std::string tool(const std::string& name) {
  if (std::optional<std::string> path = find_tool(name)) return *std::move(path);
  throw Error(ErrorCode::backend_unavailable,
              str(name, " is not installed; install the package e2fsprogs"));
}

}  // namespace

Ext4Size ext4_size(const Limit& capacity) {
  Ext4Size size;
  size.inodes = capacity.inodes + kOwnInodes;
  size.journal_mib = capacity.bytes < 256 * kMiB ? 4 : 16;
  std::uint64_t bytes = capacity.bytes + size.inodes * kInodeBytes + (size.journal_mib + 2) * kMiB;
  bytes += (bytes / kGroupBytes + 2) * kGroupOwnBytes;
  bytes += std::min(bytes / 49 + kBlockBytes, kMostKeptBack);
  const std::uint64_t groups = (size.inodes + kInodesInGroup - 1) / kInodesInGroup;
  if (groups > 1) bytes = std::max(bytes, groups * kGroupBytes);
  bytes = std::max(bytes, 4 * size.journal_mib * kMiB);  // more than half is refused
  // A last group that is almost empty would not be made by mkfs.
  const std::uint64_t over = bytes % kGroupBytes;
  if (bytes > kGroupBytes && over < 8 * kMiB) bytes += 8 * kMiB;
  size.bytes = (bytes + kMiB - 1) / kMiB * kMiB;
  return size;
}

void make_ext4_image(const fs::path& image, const Limit& capacity) {
  const std::string mkfs = tool("mkfs.ext4");
  const Ext4Size size = ext4_size(capacity);
  const UniqueFd file = open_file(image, O_RDWR | O_CREAT | O_EXCL, 0600);
  check_syscall(image.native(), ::ftruncate(file.get(), static_cast<off_t>(size.bytes)));
  // No blocks for root alone, nothing written that is zero anyhow. Options that depend on the
  // version of mkfs are given, so that images are alike.
  std::string said;
  const int status = run_tool({mkfs,
                               "-q",
                               "-F",
                               "-t",
                               "ext4",
                               "-b",
                               std::to_string(kBlockBytes),
                               "-I",
                               std::to_string(kInodeBytes),
                               "-m",
                               "0",
                               "-J",
                               str("size=", size.journal_mib),
                               "-N",
                               std::to_string(size.inodes),
                               "-O",
                               "^resize_inode,has_journal,extent,64bit,metadata_csum",
                               "-E",
                               "lazy_itable_init=1,lazy_journal_init=1,nodiscard,root_owner=0:0",
                               image.native()},
                              said);
  if (status != 0) {
    throw Error(ErrorCode::system_error,
                str(image.native(), ": mkfs.ext4 failed: ", printable(trim(said), 1000)));
  }
}

bool needs_check(std::string_view beginning, const fs::path& image) {
  if (beginning.size() < 2 * kSuperblock || byte_at(beginning, kMagic) != 0x53 ||
      byte_at(beginning, kMagic + 1) != 0xef) {
    throw Error(ErrorCode::system_error,
                str(image.native(), ": there is no ext4 file system in it; restore the file"));
  }
  const unsigned state = byte_at(beginning, kState);
  return (state & kStateClean) == 0 || (state & kStateErrors) != 0 ||
         (byte_at(beginning, kIncompatible) & kJournalInUse) != 0;
}

void check_ext4_image(const fs::path& image) {
  const UniqueFd file = open_file(image, O_RDONLY);
  std::string beginning(2 * kSuperblock, '\0');
  const ssize_t got = ::pread(file.get(), beginning.data(), beginning.size(), 0);
  beginning.resize(static_cast<std::size_t>(check_syscall(image.native(), got)));
  if (!needs_check(beginning, image)) return;
  std::string said;
  const int status = run_tool({tool("e2fsck"), "-p", image.native()}, said);
  if (status <= 1) return;  // 1: everything was mended
  throw Error(ErrorCode::system_error,
              str(image.native(), ": the file system is damaged; look at `e2fsck -f ",
                  image.native(), "` (", printable(trim(said), 1000), ")"));
}

}  // namespace caisson::quota
