#pragma once
#include <cstdint>
#include <filesystem>
#include <string_view>

#include "quota/quota.h"

// Files that hold an ext4 file system. They are sparse: only what is written takes space.
namespace caisson::quota {

inline constexpr std::uint64_t kBlockBytes = 4096;

// How large the file, how many inodes and how much journal it takes that a file system has room
// for at least `capacity` after everything of its own: tables, journal, bitmaps, what ext4 keeps
// back from everybody (2 %, at most 16 MiB), and our own few entries.
struct Ext4Size {
  std::uint64_t bytes = 0;
  std::uint64_t inodes = 0;
  std::uint64_t journal_mib = 0;
};
Ext4Size ext4_size(const Limit& capacity);

// Inodes of every file system: ten that ext4 keeps, lost+found, and what LoopVolumes adds.
inline constexpr std::uint64_t kOwnInodes = 16;

// Makes a new file with an empty file system in it. Throws with what mkfs.ext4 said.
void make_ext4_image(const std::filesystem::path& image, const Limit& capacity);

// Whether the superblock (the first 2048 bytes of an image are enough) tells of an unclean end.
// Throws when it is none of ext4.
bool needs_check(std::string_view beginning, const std::filesystem::path& image);

// Mends the file system if it was not unmounted cleanly. Throws, naming the step, when somebody
// has to look at it.
void check_ext4_image(const std::filesystem::path& image);

}  // namespace caisson::quota
