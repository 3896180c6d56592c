#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/native/image_import.h"
#include "backend/native/image_tree.h"

namespace caisson::backend::native {

// A root file system that boxes are made from.
struct Image {
  std::string name;
  ImageSource source = ImageSource::directory;
  std::uint64_t bytes = 0;         // of file content
  std::uint64_t entries = 0;       // as the source has them, the skipped ones included
  std::uint64_t skipped = 0;       // device nodes, sockets and fifos
  bool owners_kept = true;         // false when an ordinary user imported it
  std::string created_at;          // UTC, "2024-05-01T12:00:00Z"
  std::vector<std::string> notes;  // what the user should know, e.g. that there is no /bin/sh
  std::filesystem::path rootfs;
};

// The images of one state directory, each in images/<name>/rootfs with an image.json beside it.
// An image is there as a whole or not at all, also after a crash; several processes may use a
// store. Every method blocks. The directory is closed to other users: open a rootfs before giving
// up privileges. Who uses an image holds a shared flock(2) on its directory, the parent of
// `rootfs`.
class ImageStore {
 public:
  explicit ImageStore(const std::filesystem::path& state_dir, TreeLimits limits = {});

  // Imports a directory, or a tar (a file, or a pipe such as /dev/stdin), and makes the mount
  // points a box needs. Throws validation_error for a bad name or source, image_conflict when the
  // name is taken, storage_full. After a throw, also one from `progress`, nothing is left.
  Image import(const std::string& name, const std::filesystem::path& source,
               TreeProgress progress = {});

  std::vector<Image> list() const;  // by name
  std::optional<Image> find(const std::string& name) const;
  Image get(const std::string& name) const;  // throws image_not_found

  // Throws image_not_found, or image_conflict while somebody uses the image.
  void remove(const std::string& name);

 private:
  struct Draft;
  Draft begin_import(const std::string& name) const;
  Image fill(const Draft& draft, const std::string& name, const std::filesystem::path& source,
             TreeProgress progress) const;
  void publish(const Draft& draft, const std::string& name) const;
  Image load(const std::string& directory) const;

  std::filesystem::path images_;
  TreeLimits limits_;
};

std::string_view to_string(ImageSource source);  // "directory", "archive"

// Throws validation_error unless the name is [a-z0-9][a-z0-9._/:-]*, at most 128 characters.
void validate_image_name(const std::string& name);

}  // namespace caisson::backend::native
