#pragma once
#include <cstddef>
#include <string>
#include <string_view>

#include "base/unique_fd.h"

namespace caisson::session {

// The script of a shell that waits for it: a memory file that is in the box before it has any
// content, where everybody who may look at the shell can open it, and which only we ever write. We
// map it writable, and then it is sealed against writing and against new mappings that could.
class ScriptFile {
 public:
  ScriptFile() = default;  // none
  static ScriptFile make();
  ScriptFile(ScriptFile&& other) noexcept;
  ScriptFile& operator=(ScriptFile&& other) noexcept;
  ~ScriptFile();

  int fd() const { return fd_.get(); }

  // Once. False: the script is too long for a shell that waits, or somebody has changed the size of
  // the file or sealed it; nothing of it is to be used then.
  bool write(std::string_view script);

  static constexpr std::size_t kMost = 64u << 10;

 private:
  UniqueFd fd_;
  char* memory_ = nullptr;
};

}  // namespace caisson::session
