#include "model/tree_manifest.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <initializer_list>
#include <optional>
#include <set>

#include "base/beneath.h"
#include "base/sha256.h"
#include "base/str.h"
#include "model/object_reader.h"
#include "model/python_text.h"

namespace caisson::model {

namespace json = boost::json;

namespace {

constexpr std::string_view kAlgorithm = "sha256-tree-v1";

bool has_just(const json::value& value, std::initializer_list<std::string_view> names) {
  const json::object* object = value.if_object();
  return object != nullptr && object->size() == names.size() &&
         std::all_of(names.begin(), names.end(),
                     [&](std::string_view name) { return object->contains(name); });
}

// A number that is none of these is out of every bound here.
std::optional<std::uint64_t> whole_number(const json::value& value) {
  if (const std::uint64_t* number = value.if_uint64()) return *number;
  const std::int64_t* number = value.if_int64();
  if (number == nullptr || *number < 0) return std::nullopt;
  return static_cast<std::uint64_t>(*number);
}

TreeManifest::File read_file(const json::value& value, std::set<std::string, std::less<>>& seen) {
  if (!has_just(value, {"path", "size", "sha256", "executable"})) {
    refuse("Artifact manifest contains an invalid file entry");
  }
  const json::object& entry = value.get_object();
  TreeManifest::File file;
  if (const json::string* path = entry.at("path").if_string()) file.path = *path;
  const bool safe = !file.path.empty() && file.path.find('\\') == std::string::npos &&
                    normal_relative(file.path) == file.path && seen.insert(file.path).second;
  if (!safe) refuse("Artifact manifest contains an unsafe path");
  const std::optional<std::uint64_t> size = whole_number(entry.at("size"));
  if (!size) refuse("Artifact manifest contains an invalid file size");
  file.size = *size;
  if (const json::string* digest = entry.at("sha256").if_string()) file.sha256 = *digest;
  if (!are_digits(file.sha256)) refuse("Artifact manifest contains an invalid file digest");
  const bool* executable = entry.at("executable").if_bool();
  if (executable == nullptr) refuse("Artifact manifest contains an invalid file mode");
  file.executable = *executable;
  return file;
}

// As json.dumps() with sorted keys and without spaces makes it.
std::string canonical_text(const TreeManifest& manifest) {
  std::string text = str(R"({"algorithm":")", kAlgorithm, R"(","files":[)");
  std::string_view between;
  for (const TreeManifest::File& file : manifest.files) {
    text += str(between, R"({"executable":)", file.executable ? "true" : "false", R"(,"path":)",
                python_json(json::string(file.path)), R"(,"sha256":")", file.sha256, R"(","size":)",
                file.size, "}");
    between = ",";
  }
  return text + str(R"(],"total_bytes":)", manifest.total_bytes, "}");
}

}  // namespace

std::string_view digits_of(std::string_view digest) {
  return digest.substr(kDigestPrefix.size());
}

bool are_digits(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

TreeManifest read_tree_manifest(std::string_view text) {
  if (text.size() > kMaxManifestBytes) refuse("Artifact manifest is too large");
  json::error_code error;
  const json::value value = json::parse(json::string_view(text.data(), text.size()), error);
  if (error) refuse("Artifact manifest is invalid JSON");
  if (!has_just(value, {"algorithm", "files", "total_bytes"})) {
    refuse("Artifact manifest has an invalid shape");
  }
  const json::object& object = value.get_object();
  if (object.at("algorithm") != json::value(kAlgorithm)) {
    refuse("Artifact manifest uses an unsupported algorithm");
  }
  const json::array* files = object.at("files").if_array();
  if (files == nullptr || files->size() > kMaxTreeFiles) {
    refuse("Artifact manifest contains too many files");
  }
  TreeManifest manifest;
  std::set<std::string, std::less<>> seen;
  for (const json::value& entry : *files) {
    manifest.files.push_back(read_file(entry, seen));
    // Beyond the bound the sum no longer matters, and it must not wrap around.
    manifest.total_bytes =
        std::min(manifest.total_bytes + std::min(manifest.files.back().size, kMaxTreeBytes + 1),
                 kMaxTreeBytes + 1);
  }
  const std::optional<std::uint64_t> declared = whole_number(object.at("total_bytes"));
  if (declared != manifest.total_bytes || manifest.total_bytes > kMaxTreeBytes) {
    refuse("Artifact manifest contains an invalid total size");
  }
  manifest.digest = str(kDigestPrefix, sha256_hex(canonical_text(manifest)));
  return manifest;
}

}  // namespace caisson::model
