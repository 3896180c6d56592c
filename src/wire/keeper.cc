#include "wire/keeper.h"

#include "wire/bytes.h"

namespace caisson::wire {

namespace {

// The first byte of a packet. Numbers are never reused: a keeper outlives the program that started
// it.
enum class Tag : std::uint8_t { keep = 1, drop = 2, tell_all = 3, quit = 4, kept = 129, all = 130 };

Writer begin(Tag tag) {
  Writer writer;
  writer.put(static_cast<std::uint8_t>(tag));
  return writer;
}

std::string write(const Keep& m) {
  Writer w = begin(Tag::keep);
  w.put(std::string_view(m.name));
  w.put(std::string_view(m.data));
  return std::move(w).take();
}
std::string write(const Drop& m) {
  Writer w = begin(Tag::drop);
  w.put(std::string_view(m.name));
  return std::move(w).take();
}
std::string write(const TellAll&) {
  return begin(Tag::tell_all).take();
}
std::string write(const Quit&) {
  return begin(Tag::quit).take();
}
std::string write(const Kept& m) {
  Writer w = begin(Tag::kept);
  w.put(std::string_view(m.name));
  w.put(std::string_view(m.data));
  return std::move(w).take();
}
std::string write(const KeptAll& m) {
  Writer w = begin(Tag::all);
  w.put(m.version);
  w.put(m.pid);
  return std::move(w).take();
}

[[noreturn]] void refuse() {
  throw Error(ErrorCode::protocol_error, "message of an unknown type");
}

// Fields of a braced list are read in order, left to right.
KeeperRequest read_request(Reader& r) {
  switch (static_cast<Tag>(r.get<std::uint8_t>())) {
    case Tag::keep:
      return Keep{r.get_text(), r.get_text()};
    case Tag::drop:
      return Drop{r.get_text()};
    case Tag::tell_all:
      return TellAll{};
    case Tag::quit:
      return Quit{};
    default:
      refuse();
  }
}

KeeperReply read_reply(Reader& r) {
  switch (static_cast<Tag>(r.get<std::uint8_t>())) {
    case Tag::kept:
      return Kept{r.get_text(), r.get_text()};
    case Tag::all:
      return KeptAll{r.get<std::uint32_t>(), r.get<std::int32_t>()};
    default:
      refuse();
  }
}

}  // namespace

std::string encode(const KeeperRequest& request) {
  return std::visit([](const auto& m) { return write(m); }, request);
}

std::string encode(const KeeperReply& reply) {
  return std::visit([](const auto& m) { return write(m); }, reply);
}

KeeperRequest decode_keeper_request(std::string_view data) {
  return decode_whole(data, read_request);
}

KeeperReply decode_keeper_reply(std::string_view data) {
  return decode_whole(data, read_reply);
}

}  // namespace caisson::wire
