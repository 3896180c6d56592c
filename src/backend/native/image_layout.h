#pragma once
#include <string>
#include <vector>

namespace caisson::backend::native {

// Makes what a box mounts over: directories such as /workspace and files such as /etc/hosts. What
// is something else there, e.g. a symlink, gives way. Returns sentences about what the user should
// know.
std::vector<std::string> prepare_for_boxes(int root);

}  // namespace caisson::backend::native
