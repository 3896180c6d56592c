#include "backend/artifact_tree.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <vector>

#include "base/beneath.h"
#include "base/directory.h"
#include "base/error.h"
#include "base/file.h"
#include "base/sha256.h"
#include "base/str.h"
#include "base/text.h"
#include "model/tree_manifest.h"

namespace caisson::backend {

namespace {

constexpr std::size_t kMaxCopies = 256;  // of one box, as many as LangBot's runtime keeps
constexpr std::size_t kPiece = 256u << 10;
constexpr const char* kUnfinished = ".unfinished";

constexpr std::string_view kFailed = "Immutable artifact preparation failed: ";

[[noreturn]] void fail(const std::string& why) {
  throw Error(ErrorCode::artifact_refused, why);
}

// The directories above a file of the tree are made as they are needed.
UniqueFd make_parent(int tree, const std::string& path, std::string& name) {
  std::vector<std::string_view> parts = split(path, '/');
  name = parts.back();
  parts.pop_back();
  UniqueFd directory = duplicate(tree, path);
  for (const std::string_view part : parts) {
    directory = make_directory_at(directory.get(), std::string(part), path);
    check_syscall(path, ::fchmod(directory.get(), 0755));  // whatever our umask is
  }
  return directory;
}

// What is read is what is written and what is verified: the source may change at any moment.
void copy_file(int source, const model::TreeManifest::File& file, int tree) {
  const UniqueFd from =
      open_beneath(source, file.path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW, Links::refuse);
  if (!from) fail(str(printable(file.path), ": ", error_text(errno)));
  struct stat info {};
  check_syscall(file.path, ::fstat(from.get(), &info));
  if (!S_ISREG(info.st_mode)) fail("Artifact source must be a regular file");
  std::string name;
  const UniqueFd directory = make_parent(tree, file.path, name);
  const UniqueFd to =
      open_file_at(directory.get(), name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
  Sha256 sum;
  std::uint64_t left = file.size;
  std::string piece(kPiece, '\0');
  for (;;) {
    const ssize_t count = check_syscall(file.path, ::read(from.get(), piece.data(), piece.size()));
    if (count == 0) break;
    const std::string_view bytes(piece.data(), static_cast<std::size_t>(count));
    if (bytes.size() > left) fail(str("Artifact source changed: ", printable(file.path)));
    left -= bytes.size();
    sum.add(bytes);
    write_all(to.get(), bytes, file.path);
  }
  if (left != 0 || sum.hex() != file.sha256) {
    fail(str("Artifact source changed: ", printable(file.path)));
  }
  check_syscall(file.path, ::fchmod(to.get(), file.executable ? 0555 : 0444));
}

void check_room(int copies, const model::TreeManifest& manifest) {
  std::size_t count = 0;
  for_each_entry(copies, "artifacts", [&](const dirent&) { ++count; });
  if (count >= kMaxCopies ||
      measure_tree(copies).size + manifest.total_bytes > model::kMaxTreeBytes) {
    fail("Immutable artifact cache limit reached; acquire a new Box");
  }
}

UniqueFd open_copy(int copies, const std::string& name) {
  return open_beneath(copies, name, O_PATH | O_DIRECTORY, Links::refuse);
}

model::TreeManifest read_manifest(int manifest) {
  const UniqueFd file = open_file(str("/proc/self/fd/", manifest), O_RDONLY | O_NONBLOCK);
  struct stat info {};
  check_syscall("manifest", ::fstat(file.get(), &info));
  if (!S_ISREG(info.st_mode)) fail("Artifact manifest must be a regular file");
  if (info.st_size > static_cast<off_t>(model::kMaxManifestBytes)) {
    fail("Artifact manifest is too large");
  }
  return model::read_tree_manifest(read_all(file.get(), "manifest", model::kMaxManifestBytes + 1));
}

UniqueFd copy(int source, int manifest, const std::string& digest,
              const std::filesystem::path& copies) {
  const model::TreeManifest tree = read_manifest(manifest);
  if (tree.digest != digest) fail("Artifact manifest does not match content_digest");
  const UniqueFd all = make_directories(copies.native());
  const std::string name(model::digits_of(digest));
  if (UniqueFd found = open_copy(all.get(), name)) return found;
  remove_tree(all.get(), kUnfinished);
  check_room(all.get(), tree);
  try {
    const UniqueFd unfinished = make_directory_at(all.get(), kUnfinished, copies.native());
    check_syscall(copies.native(), ::fchmod(unfinished.get(), 0755));
    for (const model::TreeManifest::File& file : tree.files) {
      copy_file(source, file, unfinished.get());
    }
    check_syscall(copies.native(), ::renameat(all.get(), kUnfinished, all.get(), name.c_str()));
  } catch (...) {
    remove_tree(all.get(), kUnfinished);
    throw;
  }
  UniqueFd made = open_copy(all.get(), name);
  if (!made) throw SystemError(copies.native(), errno);
  return made;
}

}  // namespace

UniqueFd copy_artifact(int source, int manifest, const std::string& digest,
                       const std::filesystem::path& copies) {
  try {
    return copy(source, manifest, digest, copies);
  } catch (const SystemError& error) {
    throw Error(error.code(), str(kFailed, error.what()));
  } catch (const Error& error) {
    throw Error(ErrorCode::artifact_refused, str(kFailed, error.what()));
  }
}

void remove_artifact(const std::filesystem::path& copies, const std::string& digest) {
  const UniqueFd all(::open(copies.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (all) remove_tree(all.get(), std::string(model::digits_of(digest)));
}

}  // namespace caisson::backend
