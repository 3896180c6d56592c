#pragma once
#include <boost/asio/any_io_executor.hpp>
#include <memory>
#include <string>

#include "async/task.h"
#include "backend/fake/files.h"
#include "base/unique_fd.h"

namespace caisson::backend::fake {

// An open descriptor of simulated processes; shared by those that inherited it, closed with the
// last.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual Task<std::string> read() = 0;               // some bytes; none at the end
  virtual Task<void> write(std::string content) = 0;  // all of it; SystemError EPIPE: no reader
};

// A pipe end that came with Stdio. Waits without blocking the loop.
std::shared_ptr<Stream> open_descriptor(const boost::asio::any_io_executor& executor, UniqueFd fd);

// Files of the box, which the stream refers to.
std::shared_ptr<Stream> open_to_read(const Files& files, const std::string& path);
std::shared_ptr<Stream> open_to_write(Files& files, const std::string& path, bool append);

// Always at its end; forgets what is written.
std::shared_ptr<Stream> open_null();

}  // namespace caisson::backend::fake
