#pragma once
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "async/event.h"
#include "async/signal.h"
#include "async/task.h"
#include "async/task_group.h"
#include "backend/box.h"
#include "base/unique_fd.h"
#include "journal/disk.h"
#include "journal/feed.h"
#include "journal/input_log.h"
#include "journal/input_pump.h"
#include "journal/journal.h"
#include "model/managed_process.h"
#include "session/kept_process.h"

namespace caisson::session {

// What the streams of all processes share.
struct StreamsContext {
  boost::asio::any_io_executor executor;
  journal::Disk& disk;  // where the files are
};

// The standard streams of a managed process: files in a directory of their own, so that whoever
// reads or writes them may come and go, the daemon and, with a restart policy, the process
// included. With a terminal there is one output stream, and input goes to the terminal at once.
class ProcessStreams {
 public:
  // Throws storage_full, SystemError.
  static std::unique_ptr<ProcessStreams> create(const StreamsContext& context,
                                                const std::filesystem::path& directory,
                                                const model::ManagedProcessSpec& spec);
  // Those of a daemon before us, with the descriptors that it kept; `who` is for the log. What is
  // damaged or missing of their files is made anew.
  static std::unique_ptr<ProcessStreams> open(const StreamsContext& context,
                                              const std::filesystem::path& directory,
                                              const model::ManagedProcessSpec& spec,
                                              std::vector<UniqueFd> kept, ReservedOffsets reserved,
                                              const std::string& who);
  ProcessStreams(const ProcessStreams&) = delete;
  ProcessStreams& operator=(const ProcessStreams&) = delete;

  // For a program that is about to be started: its ends. None with a terminal.
  backend::Stdio make_pipes();
  void set_terminal(UniqueFd master) { ends_.terminal = std::move(master); }
  // Bytes move from here on.
  void run();
  // The program has ended: returns when all that it wrote is in the journals. What somebody else
  // writes who still has its pipes is lost after a moment.
  Task<void> finish();
  // Nothing will come any more.
  Task<void> close();
  // Leaves everything as it is.
  Task<void> stop();

  // For the keeper; the descriptors are borrowed.
  std::vector<int> descriptors() const;
  ReservedOffsets reserved() const { return reserved_; }
  // Called when one of these has changed while bytes moved.
  std::function<void()> on_change;

  journal::Feed& out() { return out_feed_; }
  journal::Feed& err() { return err_feed_; }
  const journal::Journal& out_journal() const { return *out_; }
  const journal::Journal& err_journal() const { return *err_; }
  // Of all that is kept: output, and input that nobody has read.
  std::uint64_t bytes() const;
  std::uint64_t last_sequence() const { return in_ ? in_->last_sequence() : 0; }

  // Waits while the program reads too slowly. What is sent again with its number is written once; 0
  // is for those who do not number. False: its input is closed.
  Task<bool> write(std::uint64_t sequence, std::string bytes);
  // The same without a number: each, and there is one at least, becomes a line.
  Task<bool> write_lines(std::vector<std::string> lines);
  void close_input();
  void resize(backend::TerminalSize size);

 private:
  // Our ends of the program's pipes. The pumps have copies: these are for the keeper.
  struct Ends {
    UniqueFd out;
    UniqueFd err;
    UniqueFd in;  // closed when its input is
    UniqueFd terminal;
    UniqueFd through_read;
    UniqueFd through_write;
  };

  ProcessStreams(const StreamsContext& context, std::filesystem::path directory, bool tty,
                 std::unique_ptr<journal::Journal> out, std::unique_ptr<journal::Journal> err);
  Task<void> pump(journal::Feed& feed, UniqueFd source, bool terminal);
  void reserve();
  Task<void> pump_input();
  Task<bool> append(std::uint64_t sequence, std::span<const std::string_view> pieces);
  Task<bool> write_terminal(std::string bytes);
  void drain(journal::Journal& journal);

  const StreamsContext& context_;
  const std::filesystem::path directory_;
  const bool tty_;
  std::unique_ptr<journal::Journal> out_;
  std::unique_ptr<journal::Journal> err_;
  std::optional<journal::InputLog> in_;  // without a terminal
  journal::Feed out_feed_;
  journal::Feed err_feed_;
  Ends ends_;
  ReservedOffsets reserved_;
  std::unique_ptr<journal::InputPump> input_;
  bool input_broken_ = false;  // nobody reads it, until the next program
  Signal input_moved_;
  int flowing_ = 0;  // output streams that have not ended
  Signal stream_ended_;
  TaskGroup pumps_;
  TaskGroup input_pumps_;
};

}  // namespace caisson::session
