#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace caisson::model {

// What a tree of files holds, as LangBot writes it down for a skill ("sha256-tree-v1"): everything
// that a box may see of it, and nothing else.
struct TreeManifest {
  struct File {
    std::string path;  // relative and in normal form
    std::uint64_t size = 0;
    std::string sha256;
    bool executable = false;
    bool operator==(const File&) const = default;
  };
  std::vector<File> files;
  std::uint64_t total_bytes = 0;
  std::string digest;  // of the manifest in its canonical form: the tree's name
};

// What one box may be shown of such trees, all in all.
inline constexpr std::size_t kMaxTreeFiles = 2048;
inline constexpr std::uint64_t kMaxTreeBytes = 256u << 20;
inline constexpr std::size_t kMaxManifestBytes = 4u << 20;

// "sha256:" and 64 lower-case hexadecimal digits, which name the tree.
inline constexpr std::string_view kDigestPrefix = "sha256:";
std::string_view digits_of(std::string_view digest);
bool are_digits(std::string_view text);

// Throws validation_error, with LangBot's sentences.
TreeManifest read_tree_manifest(std::string_view json);

}  // namespace caisson::model
