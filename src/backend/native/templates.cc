#include "backend/native/templates.h"

#include <fcntl.h>
#include <sys/file.h>

#include <utility>

#include "base/beneath.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "base/text.h"
#include "model/box_settings.h"
#include "model/image_name.h"

namespace caisson::backend::native {

Templates::Templates(boost::asio::any_io_executor executor, const Host& host,
                     const ImageStore& images, const Tools& tools)
    : executor_(std::move(executor)), host_(host), images_(images), tools_(tools) {}

void Templates::set_cgroups(std::vector<std::string> names, std::vector<int> directories) {
  cgroup_names_ = std::move(names);
  cgroup_directories_ = std::move(directories);
}

Task<std::shared_ptr<Template>> Templates::get(std::string image_name) {
  const std::string key = model::is_default_image(image_name) ? "" : image_name;
  for (;;) {
    if (const auto found = ready_.find(key); found != ready_.end()) {
      if (found->second->launcher->alive()) co_return found->second;
      ready_.erase(found);
    }
    const auto busy = being_made_.find(key);
    if (busy == being_made_.end()) break;
    const std::shared_ptr<Event> made = busy->second;
    co_await made->wait();
  }
  const auto made = std::make_shared<Event>(executor_);
  being_made_[key] = made;
  std::exception_ptr failure;
  std::shared_ptr<Template> result;
  try {
    result = co_await make(key);
    ready_[key] = result;
  } catch (...) {
    failure = std::current_exception();
  }
  being_made_.erase(key);
  made->set();
  if (failure) std::rethrow_exception(failure);
  co_return result;
}

RootImage Templates::find_image(const std::string& image_name, UniqueFd& in_use) const {
  if (image_name.empty()) {
    RootImage host;
    if (const std::optional<Tools::Shown> shown = tools_.shown()) {
      host.tools = {.path = shown->path,
                    .device = shown->device,
                    .inode = shown->inode,
                    .set = tools_.set().name};
    }
    return host;
  }
  const std::optional<Image> image = images_.find(image_name);
  if (!image) {
    throw Error(
        ErrorCode::image_not_found,
        str("image ", image_name,
            " is not here: see `caisson image ls`, or import it with `caisson image import ",
            image_name, " DIR|TAR`"));
  }
  in_use = open_file(image->rootfs.parent_path(), O_RDONLY | O_DIRECTORY);
  check_syscall(image->rootfs.native(), ::flock(in_use.get(), LOCK_SH));
  RootImage found{.rootfs = image->rootfs.native(),
                  .passwd = find_file_content(image->rootfs / "etc/passwd").value_or(""),
                  .group = find_file_content(image->rootfs / "etc/group").value_or(""),
                  .system_directories = {}};
  for (const char* path : {"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"}) {
    std::error_code error;
    const auto status = std::filesystem::symlink_status(image->rootfs / path, error);
    if (std::filesystem::is_directory(status)) found.system_directories.push_back(str("/", path));
  }
  return found;
}

// An image that has no place for artifacts gets one; its tree is ours. Where it cannot, boxes of
// the image are shown none.
void Templates::make_artifact_place(const RootImage& image) {
  if (image.is_host()) return;
  try {
    UniqueFd place = open_file(image.rootfs, O_PATH | O_DIRECTORY);
    for (const std::string_view part :
         split(std::string_view(model::kArtifactRoot).substr(1), '/')) {
      place = make_directory_at(place.get(), std::string(part), image.rootfs);
    }
  } catch (const SystemError& error) {
    log::warning("no place for artifacts in an image", "error", error.what());
  }
}

Task<std::shared_ptr<Template>> Templates::make(std::string image_name) {
  const auto made = std::make_shared<Template>();
  made->image = find_image(image_name, made->image_in_use);
  make_artifact_place(made->image);
  made->launcher = LauncherClient::start(executor_);
  UniqueFd owners_map;
  std::vector<int> fds;
  if (host_.privileged) {
    wire::CreateUserNamespace request{.uids = file_owners_map(), .gids = file_owners_map()};
    owners_map = co_await made->launcher->create_user_namespace(std::move(request));
    fds.push_back(owners_map.get());
  }
  wire::BuildTemplate request{
      .plan = plan_template(host_, made->image, host_.privileged ? 0 : wire::kNoFd),
      .new_user_namespace = !host_.privileged};
  co_await made->launcher->build_template(std::move(request), std::move(fds));
  if (!cgroup_names_.empty()) {
    co_await made->launcher->adopt_cgroups(cgroup_names_, cgroup_directories_);
  }
  co_return made;
}

void Templates::stop() {
  for (const auto& [name, made] : std::exchange(ready_, {})) made->launcher->stop();
}

}  // namespace caisson::backend::native
