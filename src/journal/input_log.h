#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/unique_fd.h"
#include "journal/mapped_file.h"

namespace caisson::journal {

// What counts of an input log. Kept twice in shared memory, with a generation and a checksum each:
// the one that is being changed is never the one that counts, so both numbers change together.
struct InputState {
  std::uint64_t end = 0;            // what lies behind it in the file was never accepted
  std::uint64_t last_sequence = 0;  //
  bool closed = false;              // end of file comes after what is queued

  bool operator==(const InputState&) const = default;
};

// The state that counts, of bytes that may be anything; nullopt when there is none.
std::optional<InputState> find_input_state(std::span<const std::byte> memory);

enum class Appended {
  written,
  already_written,  // this sequence number, or a later one, has been accepted before
  busy,             // too much is queued: the same may be sent again later
  closed,           // close() was called
};

// What a call of feed() moved, and why it moved no more.
struct Fed {
  enum class State {
    more,      // as much as was asked for was moved
    full,      // the pipe takes no more now
    drained,   // nothing is queued
    finished,  // nothing is queued and nothing will be: time to close the pipe, everywhere
    broken,    // nobody reads the pipe any more
  };
  std::size_t bytes = 0;
  State state = State::drained;
};

// The standard input of a process. What clients send is appended to the file DIRECTORY/NAME, and
// splice(2) moves it to the process's pipe, from the position of the file's open description, which
// the kernel advances in the same call. Whoever is killed when, nothing is lost and nothing
// repeated, as long as
// - descriptor() is kept open by another process too, and handed to open() after a kill, and
// - clients number what they send, and send again what was not acknowledged.
// DIRECTORY/NAME.state holds what counts. One process at a time has it open. One thread.
class InputLog {
 public:
  static constexpr std::uint64_t kMaxQueued = 32u << 20;

  static InputLog create(const std::filesystem::path& directory, const std::string& name,
                         std::uint64_t max_queued = kMaxQueued);
  // Goes on with `kept`, the descriptor of before: also when its file is gone, or its state, which
  // is then set aside as NAME.state.damaged-N. What was queued is taken to be accepted then, and
  // sequence numbers begin anew: what clients send again is written again.
  struct Opened;
  static Opened open(const std::filesystem::path& directory, const std::string& name, UniqueFd kept,
                     std::uint64_t max_queued = kMaxQueued);
  static void remove(const std::filesystem::path& directory, const std::string& name);

  // For another process to keep: its position is where the process's input goes on.
  int descriptor() const { return file_.get(); }

  // Accepts all pieces, one behind the other, or nothing. Sequence numbers rise; 0 is for a sender
  // that does not number, whose bytes are always appended. Throws storage_full, accepting nothing.
  Appended append(std::uint64_t sequence, std::span<const std::string_view> pieces);
  Appended append(std::uint64_t sequence, std::string_view bytes) {
    return append(sequence, std::span(&bytes, 1));
  }
  void close();

  // Moves up to `at_most` bytes into the pipe, without waiting. The program ignores SIGPIPE.
  Fed feed(int pipe, std::size_t at_most);

  std::uint64_t end() const { return state_.end; }
  std::uint64_t last_sequence() const { return state_.last_sequence; }
  bool closed() const { return state_.closed; }
  std::uint64_t position() const { return position_; }  // how much the pipe has got
  std::uint64_t queued() const { return end() - position_; }

 private:
  InputLog(std::filesystem::path path, UniqueFd file, MappedFile mapped, InputState state,
           std::uint64_t position, std::uint64_t max_queued);
  void publish(const InputState& state);
  bool skip_what_was_cut();
  void write(std::span<const std::string_view> pieces);
  void release(int pipe);

  std::filesystem::path path_;
  UniqueFd file_;
  MappedFile mapped_;
  InputState state_;
  std::uint64_t generation_ = 1;  // of the slot that counts
  std::uint64_t position_;        // the file's own, which nobody else moves
  std::uint64_t max_queued_;
  std::uint64_t released_ = 0;
};

struct InputLog::Opened {
  InputLog log;
  std::string damage;  // what was wrong; empty: nothing
};

}  // namespace caisson::journal
