#pragma once
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "async/cancellation.h"
#include "async/task.h"
#include "backend/run.h"
#include "base/unique_fd.h"
#include "session/session.h"

namespace caisson::session {

struct FileEntry {
  std::string name;
  char type = 'f';  // f, d, l (link), o (other)
  unsigned mode = 0;
  std::uint64_t size = 0;
  std::int64_t modified = 0;  // seconds since 1970
};

// What there is below a directory of a box.
struct DirectoryUsage {
  bool exists = false;
  std::uint64_t bytes = 0;  // on the disk
  std::uint64_t files = 0;
  std::uint64_t errors = 0;  // what could not be looked at
};

// Moves files in and out of boxes. A program of ours does it inside the box, as the payload's user:
// whatever a payload does to its files meanwhile, nothing of the host is ever read or written. A
// relative path starts in the session's workspace. Failures are validation_error, not_found,
// storage_full or forbidden, and name the path.
//
// A payload can also stop that program. One that says and takes nothing for half a minute is given
// up (timeout), and everything ends when the caller wishes so (cancelled).
class Files {
 public:
  // A file that says it is larger does not come out: a sparse one may say anything.
  explicit Files(std::uint64_t max_download_bytes);

  // The caller's, that it end early; null: nobody will wish.
  using Wish = std::shared_ptr<Cancellation>;

  // The content of a regular file, in pieces.
  class Download {
   public:
    std::uint64_t size() const { return size_; }
    Task<std::optional<std::string>> next();

   private:
    friend class Files;
    struct Mover;
    std::shared_ptr<Mover> mover_;
    std::string first_;  // of the content, read with the answer
    std::uint64_t size_ = 0;
    std::uint64_t left_ = 0;
  };
  Task<Download> get(Session::Use session, std::string path, Wish wish = nullptr);

  // A file that appears as a whole when it is committed; one that is dropped leaves nothing.
  class Upload {
   public:
    Task<void> write(std::string piece);
    Task<void> commit();

   private:
    friend class Files;
    std::shared_ptr<Download::Mover> mover_;
  };
  Task<Upload> put(Session::Use session, std::string path, unsigned mode, Wish wish = nullptr);

  Task<std::vector<FileEntry>> list(Session::Use session, std::string path, Wish wish = nullptr);
  Task<void> remove(Session::Use session, std::string path, Wish wish = nullptr);
  // Of each of these directories, in their order.
  Task<std::vector<DirectoryUsage>> usage(Session::Use session, std::vector<std::string> paths,
                                          Wish wish = nullptr);

 private:
  Task<std::shared_ptr<Download::Mover>> start(Session::Use session,
                                               std::vector<std::string> arguments, Wish wish);

  std::uint64_t max_download_bytes_;
  UniqueFd program_;
};

}  // namespace caisson::session
