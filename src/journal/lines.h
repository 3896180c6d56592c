#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "journal/limits.h"

namespace caisson::journal {

// One line of a stream.
struct Line {
  std::uint64_t offset = 0;         // of its first byte
  std::uint64_t size = 0;           // without its "\n"; of one that is cut off, what is given of it
  bool cut_off = false;             // it is longer than the reader's maximum
  std::optional<std::string> text;  // nothing: it is too long for memory, and to be read from there
  // Where the stream goes on when this is delivered: just behind the line, or in the midst of one
  // that is cut off.
  std::uint64_t next = 0;
};

// Finds the lines in pieces of a stream. Looks at each byte once, in however many pieces a line
// comes, and keeps little of them: of a line that may be long, nothing until its end is there. A
// "\r" before the "\n" belongs to the line. Of a line that is too long, the beginning is given as
// soon as that is certain, and the rest is passed over.
class LineReader {
 public:
  static constexpr std::size_t kInMemory = 128u << 10;

  explicit LineReader(std::uint64_t offset = 0, std::uint64_t max_line = kLongestLine)
      : max_line_(max_line), offset_(offset) {}

  // The next bytes of the stream. next() is to be called until there is none before more come.
  void push(std::string_view bytes);
  // The stream goes on at `offset`: what is there first is the rest of a line whose beginning is
  // lost, and is passed over, as is what came of the line before.
  void skip_to(std::uint64_t offset);

  // The next line, if there is one.
  std::optional<Line> next();
  // At the end of the stream, after the last complete line: what there is of one without "\n".
  std::optional<Line> finish();

  // Of the first byte that was neither given nor passed over.
  std::uint64_t offset() const { return offset_; }
  // What comes next is the rest of a line that nobody gets.
  bool passes_over() const { return passes_over_; }
  // Bytes of a line that is not complete.
  std::uint64_t pending() const { return dropped_ + buffer_.size() - taken_; }
  // Bytes of memory for what has not been given.
  std::size_t held() const { return buffer_.capacity(); }

 private:
  void leave(std::size_t bytes);
  Line take(std::size_t size, std::size_t with_newline);

  std::uint64_t max_line_;
  std::string buffer_;
  std::size_t taken_ = 0;      // of the buffer, by lines already given
  std::size_t scanned_ = 0;    // of the buffer: there is no newline between taken_ and here
  std::uint64_t offset_;       // where the line at taken_ begins
  std::uint64_t dropped_ = 0;  // of that line: they are no longer in the buffer
  bool passes_over_ = false;
};

}  // namespace caisson::journal
