// What a peer of a websocket sends: the same comes of it however the bytes are cut and wherever
// they are put, and nothing is too big.
#include <algorithm>
#include <string>
#include <vector>

#include "fuzz.h"
#include "net/frame.h"
#include "net/frame_reader.h"

namespace {

using namespace caisson;
using Event = net::FrameReader::Event;

constexpr std::uint64_t kLimit = 5000;

// One line for each thing that happened.
struct Record {
  std::vector<std::string> lines;
  bool operator==(const Record&) const = default;

  // False when there is nothing more in the input.
  bool add(net::FrameReader& reader, Event event) {
    if (event == Event::more) return false;
    std::string line(1, static_cast<char>('0' + static_cast<int>(event)));
    if (event == Event::message) {
      const net::Message message = reader.take_message();
      fuzz::require(message.data.size() <= kLimit);
      line += message.kind == net::MessageKind::text ? "t" : "b";
      line += message.data;
    } else {
      fuzz::require(reader.control().size() <= net::kMaxControlPayload);
      if (event == Event::close) line += net::decode_close(reader.control()).text;
      line += reader.control();
    }
    lines.push_back(std::move(line));
    return true;
  }
};

// With at most `step` bytes at once; those of a payload are put into the reader's own room when
// `direct` is set.
Record play(std::string_view data, net::Role self, std::size_t step, bool direct) {
  net::FrameReader reader(self, kLimit);
  Record record;
  std::string pending;
  try {
    while (!data.empty()) {
      const std::span<char> room = direct && pending.empty() ? reader.room() : std::span<char>();
      const std::size_t most = room.empty() ? step : std::min(step, room.size());
      const std::string_view piece = data.substr(0, most);
      data.remove_prefix(piece.size());
      if (room.empty()) {
        pending += piece;
      } else {
        piece.copy(room.data(), piece.size());
        reader.filled(piece.size());
      }
      for (bool more = true; more;) {
        const net::FrameReader::Step read = reader.read(pending);
        fuzz::require(read.used <= pending.size());
        pending.erase(0, read.used);
        more = record.add(reader, read.event);
      }
      fuzz::require(pending.size() < net::kMaxFrameHead);
    }
  } catch (const net::FrameError& error) {
    record.lines.push_back("refused " + std::to_string(static_cast<int>(error.close_code())));
  }
  return record;
}

// A head that is understood has just this one spelling.
void check_head(std::string_view data) {
  try {
    const auto decoded = net::decode_frame_head(data);
    if (!decoded) return;
    std::string encoded;
    net::append_frame_head(encoded, decoded->head);
    fuzz::require(encoded == data.substr(0, decoded->size));
  } catch (const net::FrameError&) {
    // Refused.
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes = fuzz::text(data, size).substr(1);
  const net::Role self = (data[0] & 1) != 0 ? net::Role::client : net::Role::server;
  check_head(bytes);
  const Record whole = play(bytes, self, bytes.size(), false);
  fuzz::require(play(bytes, self, 1, false) == whole);
  fuzz::require(play(bytes, self, 1 + (data[0] >> 1), true) == whole);
  return 0;
}
