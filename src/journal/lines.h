#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace caisson::journal {

// One line of a stream.
struct Line {
  std::string text;          // without its "\n"; empty when the line is oversized
  bool oversized = false;    // longer than the reader's maximum; only its place is known
  std::uint64_t offset = 0;  // of its first byte
  std::uint64_t length = 0;  // without its "\n"
  std::uint64_t next = 0;    // just behind it: record this when the line is delivered
};

// Puts lines together from pieces of a stream. Looks at each byte once, in however many pieces a
// line comes. A "\r" before the "\n" belongs to the line.
class LineReader {
 public:
  static constexpr std::size_t kMaxLine = 16u << 20;

  explicit LineReader(std::uint64_t offset = 0, std::size_t max_line = kMaxLine)
      : max_line_(max_line), line_offset_(offset) {}

  // The next bytes of the stream.
  void push(std::string_view bytes);
  // The stream goes on at `offset`: what is there first is the rest of a line whose beginning is
  // lost, and is passed over, as is what came of the line before.
  void skip_to(std::uint64_t offset);

  // The next complete line, if there is one.
  std::optional<Line> next();
  // Bytes of memory for what has not been given.
  std::size_t held() const { return buffer_.capacity(); }
  // At the end of the stream, after the last complete line: what there is of one without "\n".
  std::optional<Line> finish();

 private:
  Line take(std::size_t size, std::size_t with_newline);

  std::size_t max_line_;
  std::string buffer_;
  std::size_t taken_ = 0;      // of the buffer, by lines already given
  std::size_t scanned_ = 0;    // of the buffer: there is no newline between taken_ and here
  std::uint64_t line_offset_;  // where the line at taken_ begins
  std::uint64_t dropped_ = 0;  // of an oversized line, before taken_
  bool passing_over_ = false;  // until the next newline
};

}  // namespace caisson::journal
