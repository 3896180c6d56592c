#include "api/rpc/transfers.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "api/rpc/envelope.h"
#include "base/base64.h"
#include "base/error.h"
#include "base/file.h"
#include "base/str.h"
#include "base/text.h"

namespace caisson::api::rpc {

namespace json = boost::json;

namespace {

constexpr std::size_t kMaxKey = 255;
constexpr std::size_t kMaxText = 21'848;  // of a piece, and what it decodes to
constexpr std::size_t kMaxPiece = 16'384;
constexpr std::size_t kMaxFiles = 128;

[[noreturn]] void refuse(const std::string& sentence) {
  throw Fault("ValueError", sentence);
}

bool is_key(std::string_view key) {
  if (key.empty() || key.size() > kMaxKey || !is_ascii_alphanumeric(key.front())) return false;
  if (key.find("..") != std::string_view::npos) return false;
  return std::all_of(key.begin(), key.end(), [](char c) {
    return is_ascii_alphanumeric(c) || c == '.' || c == '_' || c == '-';
  });
}

const json::string& text_of(const json::object& data, std::string_view name, const char* fault) {
  const json::value* value = data.if_contains(name);
  if (value == nullptr) throw Fault("KeyError", str("'", name, "'"));
  if (!value->is_string()) refuse(fault);
  return value->get_string();
}

std::int64_t number_of(const json::object& data, std::string_view name) {
  const json::value* value = data.if_contains(name);
  if (value == nullptr) throw Fault("KeyError", str("'", name, "'"));
  if (!value->is_int64()) refuse("Invalid file chunk position");
  return value->get_int64();
}

UniqueFd nameless_file(const std::filesystem::path& directory) {
  try {
    return open_file(directory, O_TMPFILE | O_RDWR, 0600);
  } catch (const SystemError& error) {
    if (error.error_number() != EOPNOTSUPP && error.error_number() != EISDIR) throw;
    return memory_file("a file that a host sends");
  }
}

}  // namespace

void Transfers::add(const json::object& data, std::uint64_t max_bytes) {
  const std::string key(text_of(data, "file_key", "Invalid file transfer key"));
  if (!is_key(key)) refuse("Invalid file transfer key");
  const json::string& text = text_of(data, "chunk_base64", "Invalid file chunk data");
  if (text.size() > kMaxText) refuse("File transfer chunk exceeds the protocol limit");
  const std::optional<std::string> piece = decode_base64(text);
  if (!piece) throw Fault("Error", "Only base64 data is allowed");
  if (piece->size() > kMaxPiece) refuse("File transfer chunk exceeds the protocol limit");
  const std::int64_t index = number_of(data, "chunk_index");
  const std::int64_t amount = number_of(data, "chunk_amount");
  if (amount <= 0 || index < 0 || index >= amount) refuse("Invalid file chunk position");
  auto found = files_.find(key);
  if (found == files_.end()) {
    if (files_.size() >= kMaxFiles) refuse("Active file transfer capacity reached");
    if (index > 0) refuse("Invalid file chunk position");
    found = files_.emplace(key, File{.fd = nameless_file(directory_)}).first;
  }
  File& file = found->second;
  if (index == 0) {
    check_syscall(key, ::ftruncate(file.fd.get(), 0));
    check_syscall(key, ::lseek(file.fd.get(), 0, SEEK_SET));
    file.size = 0;
  }
  if (file.size + piece->size() > max_bytes) {
    files_.erase(found);
    refuse("File transfer exceeds the configured size limit");
  }
  write_all(file.fd.get(), *piece, key);
  file.size += piece->size();
}

UniqueFd Transfers::take(const std::string& key) {
  const auto found = files_.find(key);
  if (found == files_.end()) refuse(str("File transfer ", printable(key), " not found"));
  UniqueFd fd = std::move(found->second.fd);
  files_.erase(found);
  check_syscall(key, ::lseek(fd.get(), 0, SEEK_SET));
  return fd;
}

}  // namespace caisson::api::rpc
