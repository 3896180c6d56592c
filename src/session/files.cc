#include "session/files.h"

#include <fcntl.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <utility>

#include "async/patience.h"
#include "backend/guest_image.h"
#include "base/error.h"
#include "base/file.h"
#include "base/str.h"
#include "base/text.h"
#include "base/utf8.h"

namespace caisson::session {

namespace asio = boost::asio;
using asio::posix::stream_descriptor;

namespace {

constexpr std::size_t kPiece = 256u << 10;
constexpr std::size_t kMaxAnswer = 256;
constexpr std::size_t kMaxListing = 16u << 20;
// The program says every few seconds that it is at work, unless it moves bytes.
constexpr std::chrono::seconds kSilence{30};

ErrorCode code_of(int error_number) {
  switch (error_number) {
    case ENOENT:
    case ENOTDIR:
      return ErrorCode::not_found;
    case EACCES:
    case EPERM:
    case EROFS:
      return ErrorCode::forbidden;
    case ENOSPC:
    case EDQUOT:
    case ENOMEM:
      return ErrorCode::storage_full;
    default:
      return ErrorCode::validation_error;
  }
}

stream_descriptor adopt(const asio::any_io_executor& executor, UniqueFd fd) {
  set_nonblocking(fd.get());
  stream_descriptor descriptor(executor, fd.get());
  fd.release();
  return descriptor;
}

}  // namespace

// The program at work in the box, and the conversation with it.
struct Files::Download::Mover : std::enable_shared_from_this<Mover> {
  Mover(const asio::any_io_executor& executor, Session::Use session_in, std::string path_in,
        backend::StartedCommand command_in)
      : session(std::move(session_in)),
        path(std::move(path_in)),
        in(adopt(executor, std::move(command_in.in))),
        out(adopt(executor, std::move(command_in.out))),
        command(std::move(command_in)),
        timer(executor),
        patience(kSilence, Clock::now()) {}

  void watch(Wish wish_in) {
    wish = std::move(wish_in);
    on_wish.emplace(wish.get(), [this] { give_up(ErrorCode::cancelled); });
    if (!given_up) look_later();
  }

  void look_later() {
    timer.expires_at(patience.next_look());
    timer.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
      const auto self = error ? nullptr : weak.lock();
      if (self) self->look();
    });
  }

  // Only the program is judged, and only while it is waited for: a caller may take its time.
  void look() {
    if (!waiting) patience = Patience(kSilence, Clock::now());
    if (patience.over(Clock::now())) return give_up(ErrorCode::timeout);
    look_later();
  }

  // What waits for the program ends now.
  void give_up(ErrorCode why) {
    given_up = why;
    boost::system::error_code ignored;  // of pipes there is nothing to lose any more
    in.close(ignored);
    out.close(ignored);
    timer.cancel();
  }

  [[noreturn]] void throw_lost() const {
    session->check_open();
    const std::string subject =
        str("session ", printable(session->id()), ": ", printable(path), ": ");
    if (given_up == ErrorCode::cancelled) {
      throw Error(ErrorCode::cancelled, str(subject, "the caller went away"));
    }
    if (given_up == ErrorCode::timeout) {
      throw Error(ErrorCode::timeout,
                  str(subject, "nothing moved for ", kSilence.count(),
                      " seconds: a process of the box stops the program that moves files, or the "
                      "file system does not answer"));
    }
    throw Error(ErrorCode::box_lost,
                str(subject, "the box ended, or ended the program that moves files"));
  }

  // While it lives the program is waited for.
  struct Waiting {
    explicit Waiting(Mover& mover_in) : mover(mover_in) {
      mover.waiting = true;
      mover.patience = Patience(kSilence, Clock::now());
    }
    ~Waiting() { mover.waiting = false; }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;
    Mover& mover;
  };

  // Some bytes; none at the end.
  Task<std::string> read() {
    if (given_up) throw_lost();
    std::string bytes(kPiece, '\0');
    const Waiting wait(*this);
    const auto [error, got] =
        co_await out.async_read_some(asio::buffer(bytes), asio::as_tuple(asio::use_awaitable));
    if (given_up || (error && error != asio::error::eof)) throw_lost();
    bytes.resize(got);
    co_return bytes;
  }

  // A line of the program. What was read beyond it stays in `rest`.
  Task<std::string> read_line() {
    std::size_t end = std::string::npos;
    while ((end = rest.find('\n')) == std::string::npos) {
      const std::string more = co_await read();
      if (more.empty()) {
        session->check_open();
        command.process->signal(SIGKILL, backend::SignalTarget::process);
        co_await command.process->wait();  // says it, if the program was never started
      }
      if (more.empty() || rest.size() > kMaxAnswer) throw_lost();
      rest += more;
    }
    std::string line = rest.substr(0, end);
    rest.erase(0, end + 1);
    co_return line;
  }

  // The line the program answers with, when it has said often enough that it is busy.
  Task<std::uint64_t> answer() {
    std::string line = co_await read_line();
    while (line == "busy") line = co_await read_line();
    const std::size_t space = std::min(line.find(' '), line.size());
    const auto number = parse_integer(space < line.size() ? line.substr(space + 1) : "");
    if (!number || *number < 0) throw_lost();
    if (line.starts_with("error ")) {
      const int error = static_cast<int>(*number);
      throw Error(code_of(error), str("session ", printable(session->id()), ": ", printable(path),
                                      ": ", error_text(error)));
    }
    co_return static_cast<std::uint64_t>(*number);
  }

  // All that comes behind it.
  Task<std::string> whole_answer() {
    const std::uint64_t size = co_await answer();
    if (size > kMaxListing) {
      throw Error(ErrorCode::payload_too_large,
                  str(printable(path), " has too many entries to list"));
    }
    std::string text = std::exchange(rest, {});
    while (text.size() < size) {
      const std::string more = co_await read();
      if (more.empty()) throw_lost();
      text += more;
    }
    co_return text;
  }

  Task<void> send(std::string bytes) {
    if (given_up) throw_lost();
    std::string_view left = bytes;
    const Waiting wait(*this);
    while (!left.empty()) {
      const auto [error, sent] =
          co_await in.async_write_some(asio::buffer(left), asio::as_tuple(asio::use_awaitable));
      if (given_up) throw_lost();
      // A program that reads no more has a reason, and its answer says which.
      if (error) {
        co_await answer();
        throw_lost();
      }
      left.remove_prefix(sent);
      patience = Patience(kSilence, Clock::now());
    }
  }

  Session::Use session;
  std::string path;
  stream_descriptor in;
  stream_descriptor out;
  backend::StartedCommand command;
  std::string rest;
  asio::steady_timer timer;
  Patience patience;
  bool waiting = false;
  std::optional<ErrorCode> given_up;
  Wish wish;
  std::optional<Cancellation::Handler> on_wish;
};

Files::Files(std::uint64_t max_download_bytes)
    : max_download_bytes_(max_download_bytes), program_(backend::open_guest_program()) {}

Task<std::shared_ptr<Files::Download::Mover>> Files::start(Session::Use session,
                                                           std::vector<std::string> arguments,
                                                           Wish wish) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  const std::string path = arguments.at(1);
  if (path.empty() || path.find('\0') != std::string::npos) {
    throw Error(ErrorCode::validation_error, "path must not be empty");
  }
  backend::ProcessSpec process;
  process.argv = {"/proc/self/fd/3", "files"};
  process.argv.insert(process.argv.end(), arguments.begin(), arguments.end());
  process.cwd = session->box_settings().mount_path;
  std::vector<UniqueFd> more;
  more.push_back(duplicate(program_.get(), "files"));
  backend::StartedCommand command =
      co_await session->start_beside(std::move(process), std::move(more));
  const auto mover =
      std::make_shared<Download::Mover>(executor, std::move(session), path, std::move(command));
  mover->watch(std::move(wish));
  co_return mover;
}

Task<Files::Download> Files::get(Session::Use session, std::string path, Wish wish) {
  std::vector<std::string> arguments{"get", std::move(path)};
  Download download;
  download.mover_ = co_await start(std::move(session), std::move(arguments), std::move(wish));
  download.size_ = co_await download.mover_->answer();
  if (download.size_ > max_download_bytes_) {
    throw Error(ErrorCode::payload_too_large,
                str("session ", printable(download.mover_->session->id()), ": ",
                    printable(download.mover_->path), " has ", download.size_,
                    " bytes, and caisson.max_download_bytes is ", max_download_bytes_,
                    ": cut it into parts in the session"));
  }
  download.left_ = download.size_;
  download.first_ = std::exchange(download.mover_->rest, {});
  co_return download;
}

Task<std::optional<std::string>> Files::Download::next() {
  if (left_ == 0) co_return std::nullopt;
  std::string piece = std::exchange(first_, {});
  if (piece.empty()) piece = co_await mover_->read();
  if (piece.empty() || piece.size() > left_) mover_->throw_lost();
  left_ -= piece.size();
  co_return piece;
}

Task<Files::Upload> Files::put(Session::Use session, std::string path, unsigned mode, Wish wish) {
  char digits[8];
  std::snprintf(digits, sizeof digits, "%o", mode & 0777);
  std::vector<std::string> arguments{"put", std::move(path), digits};
  Upload upload;
  upload.mover_ = co_await start(std::move(session), std::move(arguments), std::move(wish));
  co_return upload;
}

Task<void> Files::Upload::write(std::string piece) {
  while (!piece.empty()) {
    const std::size_t size = std::min(piece.size(), kPiece);
    std::string framed;
    for (unsigned shift = 0; shift < 32; shift += 8) {
      framed.push_back(static_cast<char>((size >> shift) & 0xff));
    }
    framed += piece.substr(0, size);
    piece.erase(0, size);
    co_await mover_->send(std::move(framed));
  }
}

Task<void> Files::Upload::commit() {
  std::string end(4, '\0');
  co_await mover_->send(std::move(end));
  co_await mover_->answer();
}

Task<std::vector<FileEntry>> Files::list(Session::Use session, std::string path, Wish wish) {
  std::vector<std::string> arguments{"list", std::move(path)};
  const auto mover = co_await start(std::move(session), std::move(arguments), std::move(wish));
  const std::string text = co_await mover->whole_answer();
  std::vector<FileEntry> entries;
  for (const std::string_view record : split(text, '\0')) {
    const std::vector<std::string_view> fields = split(record, ' ');
    if (fields.size() < 5 || fields[0].size() != 1) continue;
    std::size_t name = 0;
    for (std::size_t i = 0; i < 4; ++i) name += fields[i].size() + 1;
    entries.push_back({.name = decode_utf8(record.substr(name)),
                       .type = fields[0][0],
                       .mode = static_cast<unsigned>(parse_integer(fields[1]).value_or(0)),
                       .size = static_cast<std::uint64_t>(parse_integer(fields[2]).value_or(0)),
                       .modified = parse_integer(fields[3]).value_or(0)});
  }
  std::sort(entries.begin(), entries.end(),
            [](const FileEntry& a, const FileEntry& b) { return a.name < b.name; });
  co_return entries;
}

Task<void> Files::remove(Session::Use session, std::string path, Wish wish) {
  std::vector<std::string> arguments{"remove", std::move(path)};
  const auto mover = co_await start(std::move(session), std::move(arguments), std::move(wish));
  co_await mover->answer();
}

Task<std::vector<DirectoryUsage>> Files::usage(Session::Use session, std::vector<std::string> paths,
                                               Wish wish) {
  std::vector<std::string> arguments{"usage"};
  arguments.insert(arguments.end(), paths.begin(), paths.end());
  const auto mover = co_await start(std::move(session), std::move(arguments), std::move(wish));
  const std::string text = co_await mover->whole_answer();
  const std::vector<std::string_view> lines = split(text, '\n');
  std::vector<DirectoryUsage> all(paths.size());
  for (std::size_t i = 0; i < all.size() && i < lines.size(); ++i) {
    const std::vector<std::string_view> fields = split(lines[i], ' ');
    if (fields.size() != 3) continue;  // "none"
    const auto number = [&fields](std::size_t which) {
      return static_cast<std::uint64_t>(std::max(parse_integer(fields[which]).value_or(0), 0LL));
    };
    all[i] = {.exists = true, .bytes = number(0), .files = number(1), .errors = number(2)};
  }
  co_return all;
}

}  // namespace caisson::session
