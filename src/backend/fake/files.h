#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "backend/fake/mounts.h"
#include "base/temporary_directory.h"
#include "model/box_settings.h"

namespace caisson::backend::fake {

// What is at a path.
enum class FileKind { missing, file, program, directory };

// The files of one simulated box: a tree in memory, and the host directories that are mounted in
// it. Paths are absolute. Every method throws SystemError with the errno a real box would give.
// Links in a mounted directory are followed as from inside the box: they cannot lead out of it.
class Files {
 public:
  // Throws mount_refused.
  explicit Files(const model::BoxSettings& settings);

  FileKind kind(std::string_view path) const;  // `program`: a file that may be executed
  std::string read(std::string_view path) const;
  void write(std::string_view path, std::string_view content);  // replaces
  void append(std::string_view path, std::string_view content);
  void make_directories(std::string_view path);
  std::uint64_t bytes_in_memory() const;

  // While programs run. Throws session_conflict when something is mounted there.
  void show(const model::MountSpec& mount);
  void hide(const model::MountSpec& mount);

 private:
  struct Node {
    FileKind kind = FileKind::directory;
    std::string content;
  };
  struct Place {
    const Mount* mount;  // null: in memory
    std::string path;    // relative to the mount's root, or absolute
  };

  Place place(std::string_view path) const;
  void put(std::string_view path, std::string_view content, int open_flags);
  void put_in_memory(const std::string& path, std::string_view content, bool keep_old);
  void check_writable(const std::string& path) const;
  void add_directory(const std::string& path);

  TemporaryDirectory copies_;  // of artifacts
  std::vector<Mount> mounts_;
  std::map<std::string, Node> nodes_;
  std::vector<std::string> writable_;
  std::uint64_t capacity_;
};

}  // namespace caisson::backend::fake
