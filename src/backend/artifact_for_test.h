#pragma once
#include <filesystem>
#include <string>

#include "base/file.h"
#include "base/sha256.h"
#include "base/str.h"
#include "model/box_settings.h"
#include "model/tree_manifest.h"

namespace caisson::backend {

// A tree with one file, SKILL.md, and what LangBot writes about it.
inline model::MountSpec write_artifact(const std::filesystem::path& directory,
                                       const std::string& name, const std::string& content) {
  const std::filesystem::path tree = directory / name;
  std::filesystem::create_directories(tree);
  replace_file(tree / "SKILL.md", content);
  const std::string manifest =
      str(R"({"algorithm":"sha256-tree-v1","files":[{"path":"SKILL.md","size":)", content.size(),
          R"(,"sha256":")", sha256_hex(content), R"(","executable":false}],"total_bytes":)",
          content.size(), "}");
  const std::filesystem::path written = directory / (name + ".json");
  replace_file(written, manifest);
  const std::string digest = model::read_tree_manifest(manifest).digest;
  return {.host_path = tree,
          .mount_path = str(model::kArtifactRoot, "/", model::digits_of(digest)),
          .mode = model::MountMode::ro,
          .content_digest = digest,
          .manifest_path = written.native()};
}

}  // namespace caisson::backend
