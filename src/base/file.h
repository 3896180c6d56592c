#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/unique_fd.h"

namespace caisson {

// open(2) with O_CLOEXEC; throws SystemError naming the path.
UniqueFd open_file(const std::filesystem::path& path, int flags, unsigned mode = 0);
UniqueFd open_file_at(int directory, const std::string& path, int flags, unsigned mode = 0);

// The whole content, up to `limit` bytes (more is an error). `find_` gives nullopt when there is no
// such file.
std::string read_file(const std::filesystem::path& path, std::size_t limit = 64u << 20);
std::optional<std::string> find_file_content(const std::filesystem::path& path,
                                             std::size_t limit = 64u << 20);
std::string read_all(int fd, std::string_view subject, std::size_t limit = 64u << 20);

// One write(2) to an existing file, as control files in /proc and /sys want it.
void write_control_file(const std::filesystem::path& path, std::string_view content);

void write_all(int fd, std::string_view content, std::string_view subject);

// Replaces `path` so that a reader or a crash sees the old or the new content, never a part.
void replace_file(const std::filesystem::path& path, std::string_view content,
                  unsigned mode = 0644);

// An anonymous file, empty and writable until it is sealed.
UniqueFd memory_file(const std::string& name);
// From now on nobody changes the content of the memory file, whoever holds it. It must not have
// been mapped writable.
void seal_memory_file(int fd, const std::string& name);
// Both, with this content; read from its beginning.
UniqueFd sealed_memory_file(const std::string& name, std::span<const std::byte> content);

// Whether both are the same file or directory.
bool same_file(int a, int b);

// A second descriptor of the same open file, above 2. The subject is for the error.
UniqueFd duplicate(int fd, std::string_view subject);

std::pair<UniqueFd, UniqueFd> make_pipe();  // read end, write end; both O_CLOEXEC
void set_nonblocking(int fd);

}  // namespace caisson
