#include "backend/fake/stream.h"

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <utility>

#include "base/error.h"
#include "base/file.h"

namespace caisson::backend::fake {
namespace {

namespace asio = boost::asio;
using asio::posix::stream_descriptor;

// Reads and writes are tried first; only a descriptor that would block is waited for. /dev/null and
// files never do, which is as well: epoll refuses them.
class DescriptorStream final : public Stream {
 public:
  DescriptorStream(const asio::any_io_executor& executor, UniqueFd fd) : descriptor_(executor) {
    set_nonblocking(fd.get());
    descriptor_.assign(fd.get());
    fd.release();
  }

  Task<std::string> read() override {
    std::string bytes(64u << 10, '\0');
    for (;;) {
      const ssize_t got = ::read(descriptor_.native_handle(), bytes.data(), bytes.size());
      if (got >= 0) {
        bytes.resize(static_cast<std::size_t>(got));
        co_return bytes;
      }
      co_await ready(stream_descriptor::wait_read, errno);
    }
  }

  Task<void> write(std::string content) override {
    std::size_t written = 0;
    while (written < content.size()) {
      const ssize_t put =
          ::write(descriptor_.native_handle(), content.data() + written, content.size() - written);
      if (put >= 0) {
        written += static_cast<std::size_t>(put);
      } else {
        co_await ready(stream_descriptor::wait_write, errno);
      }
    }
  }

 private:
  Task<void> ready(stream_descriptor::wait_type what, int error_number) {
    if (error_number == EINTR) co_return;
    if (error_number != EAGAIN) throw SystemError("standard stream", error_number);
    co_await descriptor_.async_wait(what, asio::use_awaitable);
  }

  stream_descriptor descriptor_;
};

class FileReader final : public Stream {
 public:
  explicit FileReader(std::string content) : content_(std::move(content)) {}
  Task<std::string> read() override { co_return std::exchange(content_, {}); }
  Task<void> write(std::string) override {
    throw SystemError("file opened for reading", EBADF);
    co_return;
  }

 private:
  std::string content_;
};

class FileWriter final : public Stream {
 public:
  FileWriter(Files& files, std::string path) : files_(files), path_(std::move(path)) {}
  Task<std::string> read() override {
    throw SystemError(path_, EBADF);
    co_return "";
  }
  Task<void> write(std::string content) override {
    files_.append(path_, content);
    co_return;
  }

 private:
  Files& files_;
  std::string path_;
};

class NullStream final : public Stream {
 public:
  Task<std::string> read() override { co_return ""; }
  Task<void> write(std::string) override { co_return; }
};

}  // namespace

std::shared_ptr<Stream> open_descriptor(const asio::any_io_executor& executor, UniqueFd fd) {
  if (!fd) return open_null();
  return std::make_shared<DescriptorStream>(executor, std::move(fd));
}

std::shared_ptr<Stream> open_to_read(const Files& files, const std::string& path) {
  return std::make_shared<FileReader>(files.read(path));
}

std::shared_ptr<Stream> open_to_write(Files& files, const std::string& path, bool append) {
  if (append) {
    files.append(path, "");
  } else {
    files.write(path, "");
  }
  return std::make_shared<FileWriter>(files, path);
}

std::shared_ptr<Stream> open_null() {
  return std::make_shared<NullStream>();
}

}  // namespace caisson::backend::fake
