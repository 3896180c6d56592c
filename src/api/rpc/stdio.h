#pragma once
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/rpc/connection.h"
#include "async/turns.h"
#include "base/unique_fd.h"

namespace caisson::api::rpc {

// A message as the lines that it travels in: one, or several when it is long. Each ends with a
// newline. Pure.
std::string frame_lines(const std::string& message);

// Puts messages together again from lines without their newline. Pure.
class LineAssembler {
 public:
  // A message, when the line completes one; lines that are none are ignored. Throws protocol_error
  // when the other side breaks the rules: the conversation is over then.
  std::optional<std::string> add(std::string_view line);

 private:
  std::optional<std::string> add_part(const boost::json::object& part, std::string_view type);

  bool open_ = false;
  std::size_t total_ = 0;
  std::size_t lines_ = 0;
  std::string message_;
};

// Messages by two descriptors of ours, such as standard input and output: a line each.
class StdioChannel final : public Channel {
 public:
  // Throws when they cannot be waited for: a file cannot.
  StdioChannel(const boost::asio::any_io_executor& executor, UniqueFd in, UniqueFd out);

  Task<std::optional<std::string>> read() override;
  Task<bool> write(std::string text) override;
  // Reads no more; what waits for a message gets none.
  void close();

 private:
  Task<std::optional<std::string>> read_line();

  boost::asio::posix::stream_descriptor in_;
  boost::asio::posix::stream_descriptor out_;
  std::string buffer_;
  std::size_t begin_ = 0;  // of what is unread in it
  bool ended_ = false;
  LineAssembler assembler_;
  Turns turns_;
};

}  // namespace caisson::api::rpc
