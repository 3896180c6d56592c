#include "backend/native/image_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <boost/json.hpp>
#include <ctime>
#include <utility>

#include "backend/native/drafts.h"
#include "backend/native/image_layout.h"
#include "base/directory.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "base/text.h"
#include "model/image_name.h"

namespace caisson::backend::native {

namespace fs = std::filesystem;
namespace json = boost::json;

namespace {

constexpr std::size_t kMaxNameLength = 128;
constexpr int kOpenDirectory = O_RDONLY | O_DIRECTORY | O_NOFOLLOW;

// '+' and '=' are in no name, so two names never share a directory, and none is longer than
// NAME_MAX.
std::string directory_of(std::string name) {
  std::replace(name.begin(), name.end(), '/', '+');
  std::replace(name.begin(), name.end(), ':', '=');
  return name;
}

std::string name_of(std::string directory) {
  std::replace(directory.begin(), directory.end(), '+', '/');
  std::replace(directory.begin(), directory.end(), '=', ':');
  return directory;
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  tm utc{};
  ::gmtime_r(&now, &utc);
  char text[32];
  const std::size_t length = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return std::string(text, length);
}

bool exists(int directory, const std::string& name) {
  struct stat info {};
  if (::fstatat(directory, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0) return true;
  if (errno != ENOENT) throw SystemError(name, errno);
  return false;
}

UniqueFd open_images(const fs::path& images) {
  std::error_code failure;
  fs::create_directories(images.parent_path(), failure);
  if (failure) throw SystemError(images.parent_path().native(), failure.value());
  if (::mkdir(images.c_str(), 0700) < 0 && errno != EEXIST) {
    throw SystemError(images.native(), errno);
  }
  return open_file(images, O_RDONLY | O_DIRECTORY);
}

// Held for the moments in which directories get, change or lose their names.
UniqueFd lock_store(int images) {
  UniqueFd lock = open_file_at(images, ".lock", O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
  int result = 0;
  do {
    result = ::flock(lock.get(), LOCK_EX);
  } while (result < 0 && errno == EINTR);
  check_syscall("images/.lock", result);
  return lock;
}

[[noreturn]] void refuse_taken(const std::string& name) {
  throw Error(ErrorCode::image_conflict,
              str("image \"", name, "\" exists already; remove it with `caisson image rm ", name,
                  "` or import under another name"));
}

[[noreturn]] void refuse_unknown(const std::string& name) {
  throw Error(ErrorCode::image_not_found,
              str("there is no image \"", name, "\"; make it with `caisson image import ", name,
                  " DIRECTORY-OR-TAR`"));
}

std::string serialise(const Image& image) {
  json::object object;
  object["name"] = image.name;
  object["source"] = to_string(image.source);
  object["bytes"] = image.bytes;
  object["entries"] = image.entries;
  object["skipped"] = image.skipped;
  object["owners_kept"] = image.owners_kept;
  object["created_at"] = image.created_at;
  object["notes"] = json::value_from(image.notes);
  return json::serialize(object) + "\n";
}

Image parse(const std::string& text) {
  const json::value value = json::parse(text);
  Image image;
  image.source = value.at("source").as_string() == to_string(ImageSource::archive)
                     ? ImageSource::archive
                     : ImageSource::directory;
  image.bytes = value.at("bytes").to_number<std::uint64_t>();
  image.entries = value.at("entries").to_number<std::uint64_t>();
  image.skipped = value.at("skipped").to_number<std::uint64_t>();
  image.owners_kept = value.at("owners_kept").as_bool();
  image.created_at = json::value_to<std::string>(value.at("created_at"));
  image.notes = json::value_to<std::vector<std::string>>(value.at("notes"));
  return image;
}

void add_notes(Image& image, const ImportOutcome& outcome) {
  if (outcome.skipped > 0) {
    image.notes.push_back(
        str(outcome.skipped, " entries were left out: device nodes, sockets and fifos"));
  }
  if (outcome.mount_points > 0) {
    image.notes.push_back(str(outcome.mount_points,
                              " mount points were left empty: other file systems are not copied"));
  }
  if (!image.owners_kept) {
    image.notes.emplace_back("the owners of files were not kept: that takes an import as root");
  }
}

// What failed, said with the image and its source; a full disk has a code of its own.
Error with_context(const Error& error, int error_number, const std::string& name,
                   const fs::path& source, const fs::path& images) {
  const std::string subject = str("image \"", name, "\" from ", printable(source.native(), 4096));
  if (error_number == ENOSPC || error_number == EDQUOT) {
    return {ErrorCode::storage_full, str(subject, ": no space left in ", images.native(),
                                         "; free some and import it again")};
  }
  return {error.code(), str(subject, ": ", error.what())};
}

}  // namespace

// An image in the making: its directory under a temporary name, locked while we live.
struct ImageStore::Draft {
  UniqueFd images;
  UniqueFd directory;
  std::string temporary;
};

ImageStore::ImageStore(const fs::path& state_dir, TreeLimits limits)
    : images_(state_dir / "images"), limits_(limits) {}

ImageStore::Draft ImageStore::begin_import(const std::string& name) const {
  Draft draft{.images = open_images(images_), .temporary = random_name(kDraftPrefix)};
  const int images = draft.images.get();
  UniqueFd lock = lock_store(images);
  const std::vector<Leftover> leftovers = find_leftovers(images_, images);
  if (exists(images, directory_of(name))) refuse_taken(name);
  check_syscall(images_.native(), ::mkdirat(images, draft.temporary.c_str(), 0700));
  draft.directory = open_file_at(images, draft.temporary, kOpenDirectory);
  try_lock(draft.directory.get());
  lock.reset();
  for (const Leftover& leftover : leftovers) remove_leftover(images, leftover.name);
  return draft;
}

Image ImageStore::fill(const Draft& draft, const std::string& name, const fs::path& source,
                       TreeProgress progress) const {
  const int directory = draft.directory.get();
  check_syscall("rootfs", ::mkdirat(directory, "rootfs", 0755));
  const UniqueFd root = open_file_at(directory, "rootfs", kOpenDirectory);
  // A source directory may be private to its owner; the root of a box is for everybody in it.
  check_syscall("rootfs", ::fchmod(root.get(), 0755));
  struct stat store {};
  check_syscall(images_.native(), ::fstat(draft.images.get(), &store));

  TreeWriter tree(root.get(), limits_, std::move(progress));
  const ImportOutcome outcome = import_source(source, tree, store);
  Image image{.name = name,
              .source = outcome.source,
              .bytes = tree.count().bytes,
              .entries = tree.count().entries,
              .skipped = outcome.skipped,
              .owners_kept = tree.owners_kept(),
              .created_at = utc_now(),
              .notes = prepare_for_boxes(root.get()),
              .rootfs = images_ / directory_of(name) / "rootfs"};
  add_notes(image, outcome);
  const UniqueFd file = open_file_at(directory, "image.json", O_WRONLY | O_CREAT | O_EXCL, 0644);
  write_all(file.get(), serialise(image), "image.json");
  // One flush for the whole tree: fsync for each file costs minutes.
  check_syscall("write the image to disk", ::syncfs(directory));
  return image;
}

void ImageStore::publish(const Draft& draft, const std::string& name) const {
  const int images = draft.images.get();
  const UniqueFd lock = lock_store(images);
  if (exists(images, directory_of(name))) refuse_taken(name);
  check_syscall(images_.native(),
                ::renameat(images, draft.temporary.c_str(), images, directory_of(name).c_str()));
  check_syscall(images_.native(), ::fsync(images));
}

Image ImageStore::import(const std::string& name, const fs::path& source, TreeProgress progress) {
  validate_image_name(name);
  if (model::is_default_image(name)) {
    throw Error(ErrorCode::validation_error,
                str("image name \"", name,
                    "\" always means the programs of this host: import under another name"));
  }
  const Draft draft = begin_import(name);
  try {
    Image image = fill(draft, name, source, std::move(progress));
    publish(draft, name);
    return image;
  } catch (const SystemError& error) {
    remove_leftover(draft.images.get(), draft.temporary);
    throw with_context(error, error.error_number(), name, source, images_);
  } catch (const Error& error) {
    remove_leftover(draft.images.get(), draft.temporary);
    throw with_context(error, 0, name, source, images_);
  } catch (...) {
    remove_leftover(draft.images.get(), draft.temporary);
    throw;
  }
}

Image ImageStore::load(const std::string& directory) const {
  const std::string name = name_of(directory);
  const fs::path file = images_ / directory / "image.json";
  try {
    Image image = parse(read_file(file, 1u << 20));
    image.name = name;
    image.rootfs = images_ / directory / "rootfs";
    return image;
  } catch (const std::exception&) {
    throw Error(ErrorCode::internal_error, str("image \"", name, "\" is damaged: ", file.native(),
                                               " cannot be read; remove it with `caisson image rm ",
                                               name, "` and import it again"));
  }
}

std::vector<Image> ImageStore::list() const {
  std::vector<Image> images;
  for (const std::string& directory : names_in(images_)) {
    if (directory.starts_with('.')) continue;
    try {
      images.push_back(load(directory));
    } catch (const Error& error) {
      log::warning("image left out of the list", "reason", error.what());
    }
  }
  std::sort(images.begin(), images.end(),
            [](const Image& a, const Image& b) { return a.name < b.name; });
  return images;
}

std::optional<Image> ImageStore::find(const std::string& name) const {
  validate_image_name(name);
  if (!exists(AT_FDCWD, (images_ / directory_of(name)).native())) return std::nullopt;
  return load(directory_of(name));
}

Image ImageStore::get(const std::string& name) const {
  std::optional<Image> image = find(name);
  if (!image) refuse_unknown(name);
  return *std::move(image);
}

void ImageStore::remove(const std::string& name) {
  validate_image_name(name);
  const UniqueFd images = open_images(images_);
  const std::string aside = random_name(kRemovedPrefix);
  UniqueFd lock = lock_store(images.get());
  const UniqueFd directory(
      ::openat(images.get(), directory_of(name).c_str(), kOpenDirectory | O_CLOEXEC));
  if (!directory && errno == ENOENT) refuse_unknown(name);
  check_syscall(name, directory.get());
  if (!try_lock(directory.get())) {
    throw Error(ErrorCode::image_conflict,
                str("image \"", name, "\" is in use by a box; destroy the box first"));
  }
  check_syscall(name,
                ::renameat(images.get(), directory_of(name).c_str(), images.get(), aside.c_str()));
  check_syscall(images_.native(), ::fsync(images.get()));
  lock.reset();
  remove_tree(images.get(), aside);
}

std::string_view to_string(ImageSource source) {
  return source == ImageSource::archive ? "archive" : "directory";
}

void validate_image_name(const std::string& name) {
  const auto plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  const auto allowed = [&](char c) {
    return plain(c) || c == '.' || c == '_' || c == '/' || c == ':' || c == '-';
  };
  if (!name.empty() && name.size() <= kMaxNameLength && plain(name[0]) &&
      std::all_of(name.begin(), name.end(), allowed)) {
    return;
  }
  throw Error(ErrorCode::validation_error,
              str("image name \"", printable(name),
                  "\" is not usable: small letters, digits and . _ / : - after a letter or digit, "
                  "at most 128 characters"));
}

}  // namespace caisson::backend::native
