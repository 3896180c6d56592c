#include "skill/staging.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>

#include <array>
#include <cstdio>
#include <utility>

#include "base/beneath.h"
#include "base/directory.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "base/text.h"
#include "model/object_reader.h"

namespace caisson::skill {

namespace {

constexpr std::string_view kPrefix = ".caisson-staging-";
// Says which names the packages get. It is there from before the first rename until after the last.
constexpr const char* kPlan = "plan";
constexpr const char* kFile = "file";

std::string package_name(std::size_t number) {
  return str("package-", number);
}

std::string random_name() {
  std::array<unsigned char, 8> bytes{};
  check_syscall("getrandom", ::getrandom(bytes.data(), bytes.size(), 0));
  static constexpr char kHex[] = "0123456789abcdef";
  std::string name(kPrefix);
  for (const unsigned char byte : bytes) {
    name.push_back(kHex[byte >> 4]);
    name.push_back(kHex[byte & 0xF]);
  }
  return name;
}

// Whether the directory is still where it was made: a sweep may come before the lock.
bool is_linked(int fd) {
  struct stat info {};
  return ::fstat(fd, &info) == 0 && info.st_nlink > 0;
}

bool lock(int fd) {
  return ::flock(fd, LOCK_EX | LOCK_NB) == 0 && is_linked(fd);
}

void write_new_file(int directory, const char* name, std::string_view content, unsigned mode) {
  const UniqueFd fd =
      open_file_at(directory, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600);
  write_all(fd.get(), content, name);
  check_syscall(name, ::fchmod(fd.get(), mode));
  // A file system may find out only here that it is full.
  check_syscall(name, ::fsync(fd.get()));
}

std::vector<std::string> read_plan(int staging) {
  const UniqueFd fd = open_beneath(staging, kPlan, O_RDONLY, Links::refuse);
  std::vector<std::string> names;
  if (!fd) return names;
  const std::string plan = read_all(fd.get(), kPlan, 1u << 20);
  for (const std::string_view name : split(plan, '\0')) {
    if (!name.empty() && name.find('/') == std::string_view::npos) names.emplace_back(name);
  }
  return names;
}

// Takes back what has been published: the packages that are no longer in the staging directory.
void undo_plan(int root, int staging) {
  const std::vector<std::string> names = read_plan(staging);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string package = package_name(i);
    if (stat_beneath(staging, package, Links::refuse)) continue;
    ::renameat2(root, names[i].c_str(), staging, package.c_str(), RENAME_NOREPLACE);
  }
  ::unlinkat(staging, kPlan, 0);
}

void remove_staging(int root, const std::string& name) {
  try {
    remove_tree(root, name);
  } catch (const Error& error) {
    log::warning("skill leftover stays", "directory", name, "reason", error.what());
  }
}

}  // namespace

Staging::Staging(int root, std::string where) : root_(root), where_(std::move(where)) {
  do {
    name_ = random_name();
    check_syscall(where_, ::mkdirat(root, name_.c_str(), 0700));
    directory_ = open_beneath(root, name_, O_RDONLY | O_DIRECTORY, Links::refuse);
    if (!directory_ && errno != ENOENT) throw SystemError(where_, errno);
  } while (!directory_ || !lock(directory_.get()));
}

Staging::~Staging() {
  remove_staging(root_, name_);
}

UniqueFd Staging::make_package() {
  UniqueFd package = make_directory_at(directory_.get(), package_name(packages_++), where_);
  check_syscall(where_, ::fchmod(package.get(), 0755));
  return package;
}

void Staging::publish(const std::vector<std::string>& names) {
  std::string plan;
  for (const std::string& name : names) plan.append(name).push_back('\0');
  write_new_file(directory_.get(), kPlan, plan, 0600);
  try {
    for (std::size_t i = 0; i < names.size(); ++i) {
      const std::string package = package_name(i);
      if (::renameat2(directory_.get(), package.c_str(), root_, names[i].c_str(),
                      RENAME_NOREPLACE) == 0) {
        continue;
      }
      const std::string path = join_path(where_, names[i]);
      if (errno == EEXIST) model::refuse(str("Skill directory already exists: ", path));
      throw SystemError(path, errno);
    }
  } catch (...) {
    undo_plan(root_, directory_.get());
    throw;
  }
  check_syscall(where_, ::unlinkat(directory_.get(), kPlan, 0));
}

void Staging::take(int parent, const std::string& name) {
  check_syscall(join_path(where_, name), ::renameat(parent, name.c_str(), directory_.get(),
                                                    str("taken-", taken_++).c_str()));
}

void Staging::replace_file(int parent, const std::string& name, std::string_view content) {
  struct stat owner {};
  struct stat old {};
  check_syscall(name, ::fstat(parent, &owner));
  const bool replaces =
      ::fstatat(parent, name.c_str(), &old, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(old.st_mode);
  write_new_file(directory_.get(), kFile, content, replaces ? old.st_mode & 0777u : 0644u);
  // What is in a package belongs to its owner, who is the user of a box that mounts it.
  if (owner.st_uid != ::geteuid() || owner.st_gid != ::getegid()) {
    check_syscall(
        name, ::fchownat(directory_.get(), kFile, owner.st_uid, owner.st_gid, AT_SYMLINK_NOFOLLOW));
  }
  check_syscall(name, ::renameat(directory_.get(), kFile, parent, name.c_str()));
}

bool Staging::is_staging_name(std::string_view name) {
  return name.starts_with(kPrefix);
}

void Staging::sweep(int root) {
  std::vector<std::string> names;
  for_each_entry(root, "skills", [&](const dirent& entry) {
    if (is_staging_name(entry.d_name)) names.emplace_back(entry.d_name);
  });
  for (const std::string& name : names) {
    const UniqueFd staging = open_beneath(root, name, O_RDONLY | O_DIRECTORY, Links::refuse);
    if (!staging || !lock(staging.get())) continue;  // gone, or its maker is at work
    undo_plan(root, staging.get());
    remove_staging(root, name);
  }
}

}  // namespace caisson::skill
