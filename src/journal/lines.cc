#include "journal/lines.h"

#include <utility>

namespace caisson::journal {

void LineReader::push(std::string_view bytes) {
  // Lines that were given leave the buffer when they are at least half of it: each byte moves at
  // most once for one that left.
  if (taken_ > 0 && taken_ >= buffer_.size() - taken_) {
    buffer_.erase(0, taken_);
    scanned_ -= taken_;
    taken_ = 0;
  }
  buffer_.append(bytes);
}

void LineReader::skip_to(std::uint64_t offset) {
  buffer_.clear();
  taken_ = scanned_ = 0;
  dropped_ = 0;
  line_offset_ = offset;
  passing_over_ = true;
}

Line LineReader::take(std::size_t size, std::size_t with_newline) {
  Line line{.offset = line_offset_, .length = dropped_ + size};
  line.oversized = line.length > max_line_;
  if (!line.oversized && !passing_over_) line.text = buffer_.substr(taken_, size);
  line.next = line.offset + line.length + (with_newline - size);
  taken_ += with_newline;
  scanned_ = taken_;
  line_offset_ = line.next;
  dropped_ = 0;
  return line;
}

std::optional<Line> LineReader::next() {
  for (;;) {
    const std::size_t newline = buffer_.find('\n', scanned_);
    if (newline == std::string::npos) break;
    Line line = take(newline - taken_, newline + 1 - taken_);
    if (!std::exchange(passing_over_, false)) return line;
  }
  scanned_ = buffer_.size();
  // Of a line that nobody is going to get, only the length is needed.
  if (passing_over_ || dropped_ > 0 || buffer_.size() - taken_ > max_line_) {
    dropped_ += buffer_.size() - taken_;
    buffer_.clear();
    taken_ = scanned_ = 0;
  }
  return std::nullopt;
}

std::optional<Line> LineReader::finish() {
  const std::size_t size = buffer_.size() - taken_;
  if (size + dropped_ == 0 || passing_over_) return std::nullopt;
  return take(size, size);
}

}  // namespace caisson::journal
