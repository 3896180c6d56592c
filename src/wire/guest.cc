#include "wire/guest.h"

#include <type_traits>

#include "wire/bytes.h"

namespace caisson::wire {

namespace {

// The first byte of a packet. Numbers are never reused for another message.
enum class Tag : std::uint8_t {
  start = 1,
  signal = 2,
  end = 3,
  ping = 4,
  network_ready = 5,
  indirect = 6,
  list_processes = 7,
  forget = 8,
  ready = 129,
  setup_failed = 130,
  network_handover = 131,
  started = 132,
  start_failed = 133,
  exited = 134,
  pong = 135,
  processes = 136,
  mounts_handover = 137,
};

Writer begin(Tag tag) {
  Writer writer;
  writer.put(static_cast<std::uint8_t>(tag));
  return writer;
}

std::string write(const Start& m) {
  Writer w = begin(Tag::start);
  w.put(m.id);
  w.put(m.argv);
  w.put(m.env);
  w.put(std::string_view(m.cwd));
  w.put(m.uid);
  w.put(m.gid);
  w.put(m.report_start);
  w.put(m.remember);
  w.put(m.after);
  w.put(m.cgroups);
  w.put(m.terminal.has_value());
  if (m.terminal) {
    w.put(m.terminal->rows);
    w.put(m.terminal->columns);
  }
  return std::move(w).take();
}
std::string write(const Signal& m) {
  Writer w = begin(Tag::signal);
  w.put(m.id);
  w.put(m.signal_number);
  w.put(m.group);
  return std::move(w).take();
}
std::string write(const End& m) {
  Writer w = begin(Tag::end);
  w.put(m.grace_ms);
  return std::move(w).take();
}
std::string write(const Ping& m) {
  Writer w = begin(Tag::ping);
  w.put(m.token);
  return std::move(w).take();
}
std::string write(const NetworkReady&) {
  return begin(Tag::network_ready).take();
}
std::string write(const Indirect& m) {
  Writer w = begin(Tag::indirect);
  w.put(m.size);
  return std::move(w).take();
}
std::string write(const ListProcesses&) {
  return begin(Tag::list_processes).take();
}
std::string write(const Forget& m) {
  Writer w = begin(Tag::forget);
  w.put(m.id);
  return std::move(w).take();
}
std::string write(const Ready& m) {
  Writer w = begin(Tag::ready);
  w.put(m.version);
  w.put(static_cast<std::uint32_t>(m.proofs.size()));
  for (const ProofResult& result : m.proofs) {
    w.put(static_cast<std::uint8_t>(result.proof));
    w.put(result.holds);
    w.put(std::string_view(result.detail));
  }
  return std::move(w).take();
}
std::string write(const SetupFailed& m) {
  Writer w = begin(Tag::setup_failed);
  w.put(std::string_view(m.step));
  w.put(m.error_number);
  return std::move(w).take();
}
std::string write(const NetworkHandover&) {
  return begin(Tag::network_handover).take();
}
std::string write(const MountsHandover&) {
  return begin(Tag::mounts_handover).take();
}
std::string write(const Started& m) {
  Writer w = begin(Tag::started);
  w.put(m.id);
  w.put(m.pid);
  return std::move(w).take();
}
std::string write(const StartFailed& m) {
  Writer w = begin(Tag::start_failed);
  w.put(m.id);
  w.put(static_cast<std::uint8_t>(m.step));
  w.put(m.error_number);
  return std::move(w).take();
}
void put_exited(Writer& w, const Exited& m) {
  w.put(m.id);
  w.put(m.status);
  w.put(m.user_us);
  w.put(m.system_us);
  w.put(m.peak_memory_bytes);
  w.put(m.ended_us);
}
std::string write(const Exited& m) {
  Writer w = begin(Tag::exited);
  put_exited(w, m);
  return std::move(w).take();
}
std::string write(const Processes& m) {
  Writer w = begin(Tag::processes);
  w.put(m.last_id);
  w.put(static_cast<std::uint32_t>(m.running.size()));
  for (const RunningProcess& process : m.running) {
    w.put(process.id);
    w.put(process.pid);
    w.put(process.remember);
  }
  w.put(static_cast<std::uint32_t>(m.ended.size()));
  for (const Exited& exited : m.ended) put_exited(w, exited);
  return std::move(w).take();
}
std::string write(const Pong& m) {
  Writer w = begin(Tag::pong);
  w.put(m.token);
  return std::move(w).take();
}

template <typename Enum>
Enum get_enum(Reader& r, std::uint8_t count) {
  const auto value = r.get<std::uint8_t>();
  if (value >= count) throw Error(ErrorCode::protocol_error, "message with an unknown kind");
  return static_cast<Enum>(value);
}

Start read_start(Reader& r) {
  Start m;
  m.id = r.get<std::uint64_t>();
  m.argv = r.get_texts();
  m.env = r.get_texts();
  m.cwd = r.get_text();
  m.uid = r.get<std::uint32_t>();
  m.gid = r.get<std::uint32_t>();
  m.report_start = r.get_bool();
  m.remember = r.get_bool();
  m.after = r.get<std::uint64_t>();
  m.cgroups = r.get<std::uint32_t>();
  if (r.get_bool()) m.terminal = {r.get<std::uint16_t>(), r.get<std::uint16_t>()};
  return m;
}

Ready read_ready(Reader& r) {
  Ready m;
  m.version = r.get<std::uint32_t>();
  m.proofs = r.get_list<ProofResult>(6, [&r] {
    ProofResult result;
    result.proof = get_enum<Proof>(r, kProofCount);
    result.holds = r.get_bool();
    result.detail = r.get_text();
    return result;
  });
  return m;
}

Exited read_exited(Reader& r) {
  Exited m;
  m.id = r.get<std::uint64_t>();
  m.status = r.get<std::int32_t>();
  m.user_us = r.get<std::uint64_t>();
  m.system_us = r.get<std::uint64_t>();
  m.peak_memory_bytes = r.get<std::uint64_t>();
  m.ended_us = r.get<std::uint64_t>();
  return m;
}

Processes read_processes(Reader& r) {
  Processes m;
  m.last_id = r.get<std::uint64_t>();
  m.running = r.get_list<RunningProcess>(13, [&r] {
    return RunningProcess{r.get<std::uint64_t>(), r.get<std::int32_t>(), r.get_bool()};
  });
  m.ended = r.get_list<Exited>(44, [&r] { return read_exited(r); });
  return m;
}

// Fields of a braced list are read in order, left to right.
OwnerMessage read_owner_message(Reader& r) {
  switch (static_cast<Tag>(r.get<std::uint8_t>())) {
    case Tag::start:
      return read_start(r);
    case Tag::signal:
      return Signal{r.get<std::uint64_t>(), r.get<std::int32_t>(), r.get_bool()};
    case Tag::end:
      return End{r.get<std::uint32_t>()};
    case Tag::ping:
      return Ping{r.get<std::uint64_t>()};
    case Tag::network_ready:
      return NetworkReady{};
    case Tag::indirect:
      return Indirect{r.get<std::uint64_t>()};
    case Tag::list_processes:
      return ListProcesses{};
    case Tag::forget:
      return Forget{r.get<std::uint64_t>()};
    default:
      throw Error(ErrorCode::protocol_error, "message of an unknown type");
  }
}

GuestMessage read_guest_message(Reader& r) {
  switch (static_cast<Tag>(r.get<std::uint8_t>())) {
    case Tag::ready:
      return read_ready(r);
    case Tag::setup_failed:
      return SetupFailed{r.get_text(), r.get<std::int32_t>()};
    case Tag::network_handover:
      return NetworkHandover{};
    case Tag::started:
      return Started{r.get<std::uint64_t>(), r.get<std::int32_t>()};
    case Tag::start_failed:
      return StartFailed{r.get<std::uint64_t>(), get_enum<StartStep>(r, kStartStepCount),
                         r.get<std::int32_t>()};
    case Tag::exited:
      return read_exited(r);
    case Tag::pong:
      return Pong{r.get<std::uint64_t>()};
    case Tag::processes:
      return read_processes(r);
    case Tag::mounts_handover:
      return MountsHandover{};
    default:
      throw Error(ErrorCode::protocol_error, "message of an unknown type");
  }
}

}  // namespace

std::string encode(const OwnerMessage& message) {
  return std::visit([](const auto& m) { return write(m); }, message);
}

std::string encode(const GuestMessage& message) {
  return std::visit([](const auto& m) { return write(m); }, message);
}

OwnerMessage decode_owner_message(std::string_view data) {
  return decode_whole(data, read_owner_message);
}

GuestMessage decode_guest_message(std::string_view data) {
  return decode_whole(data, read_guest_message);
}

}  // namespace caisson::wire
