#include "skill/package.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>

#include "base/beneath.h"
#include "base/error.h"
#include "base/str.h"
#include "base/text.h"
#include "base/utf8.h"
#include "model/object_reader.h"
#include "skill/limits.h"
#include "skill/name.h"

namespace caisson::skill {

namespace {

[[noreturn]] void refuse_size(std::string_view subject) {
  model::refuse(str(subject, " exceeds the ", kMaxTextBytes, "-byte limit"));
}

model::Timestamp timestamp(const timespec& time) {
  return model::Timestamp(std::chrono::seconds(time.tv_sec) +
                          std::chrono::microseconds(time.tv_nsec / 1000));
}

struct Text {
  std::string content;
  struct stat info {};
};

std::optional<Text> read_text_and_stat(int package, const std::string& path,
                                       std::string_view subject) {
  const UniqueFd fd = open_beneath(package, path, O_RDONLY, Links::inside);
  Text text;
  if (!fd || ::fstat(fd.get(), &text.info) < 0 || !S_ISREG(text.info.st_mode)) return std::nullopt;
  if (text.info.st_size > static_cast<off_t>(kMaxTextBytes)) refuse_size(subject);
  // The file may grow meanwhile: one byte more than allowed is enough to tell.
  std::string& content = text.content;
  content.resize(kMaxTextBytes + 1);
  std::size_t size = 0;
  while (size < content.size()) {
    const ssize_t got = ::read(fd.get(), content.data() + size, content.size() - size);
    if (got < 0 && errno == EINTR) continue;
    check_syscall(subject, got);
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  content.resize(size);
  check_text(content, subject);
  return text;
}

bool is_python_project(int package) {
  return std::any_of(std::begin(kPythonFiles), std::end(kPythonFiles),
                     [&](const char* name) { return is_file_beneath(package, name); }) ||
         is_directory_beneath(package, kPythonDirectory);
}

}  // namespace

void check_text(std::string_view content, std::string_view subject) {
  if (content.size() > kMaxTextBytes) refuse_size(subject);
  if (!is_utf8(content)) model::refuse(str(subject, " is not valid UTF-8 text"));
}

std::optional<std::string> read_text(int package, const std::string& path,
                                     std::string_view subject) {
  std::optional<Text> text = read_text_and_stat(package, path, subject);
  if (!text) return std::nullopt;
  return std::move(text->content);
}

std::string entry_subject(const std::string& entry_file) {
  return str("Skill entry file ", entry_file);
}

std::optional<std::string> find_entry_file(int directory) {
  for (const char* name : kEntryFiles) {
    if (is_file_beneath(directory, name)) return name;
  }
  return std::nullopt;
}

Skill read_skill(std::string_view content, const std::string& entry_file,
                 std::string_view directory_name) {
  check_text(content, entry_subject(entry_file));
  EntryText entry = parse_entry(content, entry_file);
  Skill skill;
  skill.name = check_name(entry.name.empty() ? directory_name : entry.name);
  skill.display_name = entry.display_name.empty() ? skill.name : std::move(entry.display_name);
  skill.description = std::move(entry.description);
  skill.instructions = std::move(entry.instructions);
  skill.entry_file = entry_file;
  return skill;
}

Skill load_package(int package, const std::string& package_root, const std::string& entry_file) {
  if (!is_utf8(package_root)) {
    model::refuse(str("Skill directory is not valid UTF-8: ", printable(package_root)));
  }
  const std::optional<Text> text =
      read_text_and_stat(package, entry_file, entry_subject(entry_file));
  if (!text) model::refuse(str("No SKILL.md found in ", package_root));
  const std::size_t slash = package_root.rfind('/');
  Skill skill =
      read_skill(text->content, entry_file, std::string_view(package_root).substr(slash + 1));
  skill.package_root = package_root;
  skill.python_project = is_python_project(package);
  skill.created_at = timestamp(text->info.st_ctim);
  skill.updated_at = timestamp(text->info.st_mtim);
  return skill;
}

}  // namespace caisson::skill
