#pragma once
#include <cstddef>
#include <cstdint>

namespace caisson::skill {

// What an archive may hold, and with it a directory that is copied into the store.
constexpr std::size_t kMaxArchiveBytes = 20u << 20;
constexpr std::size_t kMaxEntries = 512;
constexpr std::uint64_t kMaxFileBytes = 16u << 20;
constexpr std::uint64_t kMaxTotalBytes = 64u << 20;
constexpr std::uint64_t kMaxRatio = 100;     // of the size to the compressed size
constexpr std::size_t kMaxDepth = 32;        // of directories
constexpr std::size_t kMaxNameBytes = 255;   // of one component, as file systems have it
constexpr std::size_t kMaxPathBytes = 3072;  // leaves room for the store's own path

// What a store reads.
constexpr std::size_t kMaxTextBytes = 1u << 20;
constexpr std::size_t kMaxPackages = 1000;
constexpr std::size_t kMaxScannedEntries = 10'000;
constexpr std::size_t kMaxListedFiles = 1000;
constexpr std::size_t kMaxDirectoryEntries = 10'000;
constexpr std::size_t kMaxListedTextBytes = 16u << 20;
constexpr unsigned kListDepth = 6;
constexpr unsigned kScanDepth = 2;

constexpr std::size_t kMaxNameCharacters = 64;

}  // namespace caisson::skill
