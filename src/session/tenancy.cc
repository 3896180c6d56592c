#include "session/tenancy.h"

#include <algorithm>

#include "base/error.h"
#include "base/sha256.h"
#include "base/str.h"
#include "base/text.h"

namespace caisson::session {

namespace {

constexpr std::string_view kPrefix = "ws-";
constexpr std::size_t kDigestLength = 24;

bool is_safe(char c) {
  return is_ascii_alphanumeric(c) || c == '_' || c == '.' || c == '-';
}

bool is_digest(std::string_view text) {
  return text.size() == kDigestLength &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

[[noreturn]] void refuse_stale() {
  throw Error(ErrorCode::forbidden, "Stale Box placement generation");
}

}  // namespace

std::string workspace_namespace(std::string_view instance, std::string_view workspace) {
  std::string named(trim(instance));
  named.push_back('\0');
  named.append(trim(workspace));
  return str(kPrefix, sha256_hex(named).substr(0, kDigestLength));
}

std::string placement_prefix(const Tenant& tenant) {
  return str(workspace_namespace(tenant), "-g", tenant.generation, "-");
}

std::string safe_name(std::string_view name) {
  std::string safe;
  for (const char c : trim(name)) {
    if (is_safe(c)) {
      safe.push_back(c);
    } else if (safe.empty() || safe.back() != '\0') {
      safe.push_back('\0');  // a run that is to become one "-"
    }
  }
  std::replace(safe.begin(), safe.end(), '\0', '-');
  const std::size_t first = safe.find_first_not_of('-');
  if (first == std::string::npos) return {};
  return safe.substr(first, safe.find_last_not_of('-') - first + 1);
}

std::optional<Placement> find_placement(std::string_view session_id) {
  constexpr std::size_t kNamespaceLength = kPrefix.size() + kDigestLength;
  if (!session_id.starts_with(kPrefix) || session_id.size() < kNamespaceLength) {
    return std::nullopt;
  }
  const std::string_view name_space = session_id.substr(0, kNamespaceLength);
  if (!is_digest(name_space.substr(kPrefix.size()))) return std::nullopt;
  std::string_view rest = session_id.substr(kNamespaceLength);
  if (!rest.starts_with("-g")) return std::nullopt;
  rest.remove_prefix(2);
  const std::size_t dash = rest.find('-');
  const std::optional<long long> generation = parse_integer(rest.substr(0, dash));
  if (dash == std::string_view::npos || !generation || *generation < 1) return std::nullopt;
  if (rest.front() < '1' || rest.front() > '9') return std::nullopt;  // "+1", "01"
  if (dash + 1 == rest.size()) return std::nullopt;
  return Placement{.name_space = std::string(name_space),
                   .generation = *generation,
                   .name = std::string(rest.substr(dash + 1))};
}

std::string name_space_of(std::string_view session_id) {
  const std::optional<Placement> placement = find_placement(session_id);
  return placement ? placement->name_space : std::string();
}

bool GenerationFence::advance(const std::string& name_space, std::int64_t generation,
                              std::size_t capacity) {
  const auto found = highest_.find(name_space);
  if (found == highest_.end()) {
    if (highest_.size() >= capacity) {
      throw Error(ErrorCode::forbidden,
                  "Box generation fence capacity reached; refusing an unbounded Workspace "
                  "allocation");
    }
    highest_.emplace(name_space, generation);
    return true;
  }
  if (generation < found->second) refuse_stale();
  const bool higher = generation > found->second;
  found->second = generation;
  return higher;
}

void GenerationFence::check(const std::string& name_space, std::int64_t generation) const {
  const auto found = highest_.find(name_space);
  if (found != highest_.end() && generation < found->second) refuse_stale();
}

std::optional<std::int64_t> GenerationFence::find(const std::string& name_space) const {
  const auto found = highest_.find(name_space);
  return found == highest_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace caisson::session
