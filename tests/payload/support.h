#pragma once
#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

namespace caisson::payload {

// A directory of our own that is gone, with all in it, at the end of the scope.
class TempDir {
 public:
  explicit TempDir(const std::string& parent = "/tmp");
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir();

  bool valid() const { return !path_.empty(); }
  const std::string& path() const { return path_; }
  std::string file(std::string_view name) const;

 private:
  std::string path_;
};

// Up to 1 MiB of a file; empty when it cannot be read.
std::string content_of(const std::string& path);

std::vector<std::string> lines_of(const std::string& path);
std::vector<std::string> words_of(std::string_view text, char separator = ' ');

// The names in a directory without "." and ".."; empty when it cannot be read.
std::vector<std::string> names_in(const std::string& directory);

// One line of /proc/self/mountinfo.
struct Mount {
  std::string path;
  std::string type;
};
std::vector<Mount> mounts();

// Directories in which this process may create files: /tmp first, then the home directory, the
// working places and every mount point that lets us.
std::vector<std::string> writable_places();

// Descriptors open now, found without opening one.
std::vector<int> open_descriptors();

// "12.5" -> 12.5; `fallback` when it is not a number.
double number_or(const std::string& text, double fallback);

// In a child of `parent`: from here on it cannot outlive it.
void end_with_parent(pid_t parent);

// Blocks until standard input ends: how a fixture is told to go away.
void wait_for_end_of_input();

}  // namespace caisson::payload
