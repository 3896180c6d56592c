#pragma once
#include <boost/asio/any_io_executor.hpp>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "async/event.h"
#include "async/task.h"
#include "backend/native/cgroup.h"
#include "backend/native/host.h"
#include "backend/native/image_store.h"
#include "backend/native/launcher_client.h"
#include "backend/native/plan.h"
#include "backend/native/tools.h"

namespace caisson::backend::native {

// A launcher that lives in the root of one image and makes boxes of it.
struct Template {
  RootImage image;
  UniqueFd image_in_use;  // keeps the image from being removed
  std::shared_ptr<LauncherClient> launcher;
};

// One launcher for each image in use, started when first asked for and again when it has died.
class Templates {
 public:
  Templates(boost::asio::any_io_executor executor, const Host& host, const ImageStore& images,
            const Tools& tools);

  // Told to every launcher, which removes them if we die.
  void set_cgroups(std::vector<std::string> names, std::vector<int> directories);

  // Throws image_not_found. Several callers may wait for the same launcher.
  Task<std::shared_ptr<Template>> get(std::string image_name);

  void stop();

 private:
  Task<std::shared_ptr<Template>> make(std::string image_name);
  static void make_artifact_place(const RootImage& image);
  RootImage find_image(const std::string& image_name, UniqueFd& in_use) const;

  boost::asio::any_io_executor executor_;
  const Host& host_;
  const ImageStore& images_;
  const Tools& tools_;
  std::vector<std::string> cgroup_names_;
  std::vector<int> cgroup_directories_;
  std::map<std::string, std::shared_ptr<Template>> ready_;
  std::map<std::string, std::shared_ptr<Event>> being_made_;
};

}  // namespace caisson::backend::native
