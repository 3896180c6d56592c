#include "api/rpc/stdio.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/str.h"
#include "base/text.h"
#include "base/utf8.h"
#include "model/python_text.h"

namespace caisson::api::rpc {

namespace asio = boost::asio;
namespace json = boost::json;

namespace {

constexpr std::size_t kMaxLine = 65'536;
constexpr std::size_t kMaxSlice = 16'384;  // longer messages go in slices
constexpr std::size_t kMaxLines = 4096;    // between the beginning and the end of a message

[[noreturn]] void break_off(const std::string& fault) {
  throw Error(ErrorCode::protocol_error, str("the control channel is broken: ", fault));
}

std::size_t number_in(const json::object& part, std::string_view name) {
  const json::value* value = part.if_contains(name);
  if (value == nullptr || !value->is_int64() || value->get_int64() < 0) {
    break_off(str("a part of a message has no ", name));
  }
  return static_cast<std::size_t>(value->get_int64());
}

}  // namespace

std::string frame_lines(const std::string& message) {
  if (message.size() <= kMaxSlice) return message + "\n";
  std::string lines = str(R"({"type": "chunk_start", "total_size": )", message.size(), "}\n");
  for (std::size_t offset = 0; offset < message.size();) {
    std::string_view slice = std::string_view(message).substr(offset, kMaxSlice);
    slice.remove_suffix(incomplete_utf8_tail(slice));
    lines += str(R"({"type": "chunk_data", "data": )", model::python_json(json::value(slice)),
                 R"(, "offset": )", offset, "}\n");
    offset += slice.size();
  }
  return lines + "{\"type\": \"chunk_end\"}\n";
}

std::optional<std::string> LineAssembler::add(std::string_view line) {
  line = trim(line);
  if (line.empty()) return std::nullopt;
  if (!is_utf8(line)) break_off("a line is not UTF-8");
  if (open_ && ++lines_ > kMaxLines) break_off("a message has too many parts");
  if (!line.starts_with('{') || !line.ends_with('}')) return std::nullopt;
  const std::optional<json::object> object = read_object(line);
  const json::value* type = object ? object->if_contains("type") : nullptr;
  if (type != nullptr && type->is_string() && type->get_string().starts_with("chunk_")) {
    return add_part(*object, type->get_string());
  }
  if (open_) return std::nullopt;
  return std::string(line);
}

std::optional<std::string> LineAssembler::add_part(const json::object& part,
                                                   std::string_view type) {
  if (type == "chunk_start") {
    total_ = number_in(part, "total_size");
    if (total_ > kMaxMessage) break_off(str("a message has ", total_, " bytes"));
    open_ = true;
    lines_ = 0;
    message_.clear();
  } else if (type == "chunk_data" && open_) {
    const json::value* data = part.if_contains("data");
    if (data == nullptr || !data->is_string()) break_off("a part of a message has no data");
    if (number_in(part, "offset") != message_.size()) break_off("a part of a message is missing");
    message_ += data->get_string();
    if (message_.size() > total_) break_off("a message is longer than announced");
  } else if (type == "chunk_end" && open_) {
    if (message_.size() != total_) break_off("a message is shorter than announced");
    open_ = false;
    return std::exchange(message_, {});
  }
  return std::nullopt;
}

StdioChannel::StdioChannel(const asio::any_io_executor& executor, UniqueFd in, UniqueFd out)
    : in_(executor), out_(executor), turns_(executor) {
  try {
    in_.assign(in.get());
    in.release();
    out_.assign(out.get());
    out.release();
  } catch (const boost::system::system_error& error) {
    throw Error(ErrorCode::validation_error,
                str("standard input and output must be pipes or sockets to carry messages: ",
                    error.code().message()));
  }
}

Task<std::optional<std::string>> StdioChannel::read() {
  while (!ended_) {
    try {
      std::optional<std::string> line = co_await read_line();
      if (!line) break;
      if (std::optional<std::string> message = assembler_.add(*line)) co_return message;
    } catch (const Error& error) {
      log::error("control channel", "error", error.what());
      break;
    }
  }
  ended_ = true;
  co_return std::nullopt;
}

Task<std::optional<std::string>> StdioChannel::read_line() {
  for (;;) {
    const std::size_t end = buffer_.find('\n', begin_);
    if (end != std::string::npos) {
      std::string line = buffer_.substr(begin_, end - begin_);
      begin_ = end + 1;
      if (line.size() > kMaxLine) break_off(str("a line is longer than ", kMaxLine, " bytes"));
      co_return line;
    }
    buffer_.erase(0, std::exchange(begin_, 0));
    if (buffer_.size() > kMaxLine) break_off(str("a line is longer than ", kMaxLine, " bytes"));
    const std::size_t kept = buffer_.size();
    buffer_.resize(kept + kMaxLine);
    const auto [error, count] = co_await in_.async_read_some(
        asio::buffer(buffer_.data() + kept, kMaxLine), asio::as_tuple(asio::use_awaitable));
    buffer_.resize(kept + count);
    if (error || count == 0) co_return std::nullopt;
  }
}

void StdioChannel::close() {
  ended_ = true;
  in_.close();
}

Task<bool> StdioChannel::write(std::string text) {
  const std::string lines = frame_lines(text);
  const std::optional<Turns::Turn> turn = co_await turns_.take();
  const auto [error, count] =
      co_await asio::async_write(out_, asio::buffer(lines), asio::as_tuple(asio::use_awaitable));
  co_return !error;
}

}  // namespace caisson::api::rpc
