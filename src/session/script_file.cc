#include "session/script_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/file.h"

namespace caisson::session {

namespace {

constexpr const char* kName = "caisson-command";

}  // namespace

ScriptFile ScriptFile::make() {
  ScriptFile file;
  file.fd_ = memory_file(kName);
  void* memory = ::mmap(nullptr, kMost, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd_.get(), 0);
  if (memory == MAP_FAILED) throw SystemError(kName, errno);
  file.memory_ = static_cast<char*>(memory);
  check_syscall(kName, ::fcntl(file.fd_.get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE));
  return file;
}

ScriptFile::ScriptFile(ScriptFile&& other) noexcept
    : fd_(std::move(other.fd_)), memory_(std::exchange(other.memory_, nullptr)) {}

ScriptFile& ScriptFile::operator=(ScriptFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(memory_, other.memory_);
  return *this;
}

ScriptFile::~ScriptFile() {
  if (memory_ != nullptr) ::munmap(memory_, kMost);
}

bool ScriptFile::write(std::string_view script) {
  if (memory_ == nullptr || script.empty() || script.size() > kMost) return false;
  const auto size = static_cast<off_t>(script.size());
  // The size is ours to set and then nobody's. What is allocated and cannot be taken away any more
  // is written without a fault.
  struct stat info {};
  if (::fallocate(fd_.get(), 0, 0, size) < 0 ||
      ::fcntl(fd_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0 ||
      ::fstat(fd_.get(), &info) < 0) {
    return false;
  }
  constexpr off_t kBlock = 512;
  if (info.st_size != size || info.st_blocks * kBlock < size) return false;
  std::memcpy(memory_, script.data(), script.size());
  return true;
}

}  // namespace caisson::session
