#include "journal/lines.h"

#include <algorithm>
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
  offset_ = offset;
  passes_over_ = true;
}

// The next bytes of the buffer are done with, and what was dropped before them.
void LineReader::leave(std::size_t bytes) {
  offset_ += std::exchange(dropped_, 0) + bytes;
  taken_ += bytes;
  scanned_ = taken_;
}

Line LineReader::take(std::size_t size, std::size_t with_newline) {
  Line line{.offset = offset_, .size = dropped_ + size, .text = std::nullopt};
  line.cut_off = line.size > max_line_;
  if (line.cut_off) line.size = max_line_;
  if (dropped_ == 0) line.text = buffer_.substr(taken_, line.size);
  leave(with_newline);
  line.next = offset_;
  return line;
}

std::optional<Line> LineReader::next() {
  for (;;) {
    const std::size_t newline = buffer_.find('\n', scanned_);
    const bool complete = newline != std::string::npos;
    const std::size_t size = (complete ? newline : buffer_.size()) - taken_;
    if (passes_over_) {
      leave(complete ? size + 1 : size);
      if (!complete) break;
      passes_over_ = false;
    } else if (dropped_ + size > max_line_) {
      passes_over_ = true;
      return take(size, size);
    } else if (complete) {
      return take(size, size + 1);
    } else {
      scanned_ = buffer_.size();
      break;
    }
  }
  if (dropped_ > 0 || buffer_.size() - taken_ > kInMemory) {
    dropped_ = pending();
    taken_ = buffer_.size();
  }
  if (taken_ == buffer_.size()) {
    buffer_.clear();
    taken_ = scanned_ = 0;
  }
  return std::nullopt;
}

std::optional<Line> LineReader::finish() {
  if (pending() == 0 || passes_over_) return std::nullopt;
  const std::size_t size = buffer_.size() - taken_;
  return take(size, size);
}

}  // namespace caisson::journal
