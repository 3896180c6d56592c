#include "backend/native/mount_point.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/str.h"
#include "base/text.h"

namespace caisson::backend::native {

void make_mount_point(const MountSource& directory, const std::string& relative,
                      bool is_directory) {
  const std::string subject = str(directory.resolved, "/", relative);
  UniqueFd parent(check_syscall(
      subject, ::openat(directory.place.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)));
  const std::vector<std::string_view> parts = split(relative, '/');
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string name(parts[i]);
    const bool last = i + 1 == parts.size();
    bool made = false;
    if (!last || is_directory) {
      made = ::mkdirat(parent.get(), name.c_str(), 0755) == 0;
    } else {
      const UniqueFd file(::openat(parent.get(), name.c_str(),
                                   O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
      made = file.valid();
    }
    if (!made && errno != EEXIST) throw SystemError(subject, errno);
    if (made) {
      check_syscall(subject, ::fchownat(parent.get(), name.c_str(), directory.owner,
                                        directory.group, AT_SYMLINK_NOFOLLOW));
    }
    if (last) return;
    parent =
        UniqueFd(check_syscall(subject, ::openat(parent.get(), name.c_str(),
                                                 O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)));
  }
}

}  // namespace caisson::backend::native
