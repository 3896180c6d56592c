// Writes the seeds of the fuzzers: make_corpus tests/fuzz/corpus. Seeds of before are replaced;
// what is there under other names, such as inputs that once found a fault, stays.
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <span>
#include <vector>

#include "base/file.h"
#include "base/str.h"
#include "channel_script.h"
#include "journal/block_index.h"
#include "journal/input_log.h"
#include "journal_script.h"
#include "net/frame.h"
#include "wire/samples_for_test.h"

namespace {

namespace fs = std::filesystem;
using namespace caisson;
using fuzz::ScriptedPacket;
using fuzz::write_journal_script;
using fuzz::write_script;

void write_seeds(const fs::path& directory, const std::vector<std::string>& seeds) {
  fs::create_directories(directory);
  for (const fs::directory_entry& entry :
       std::vector(fs::directory_iterator(directory), fs::directory_iterator())) {
    if (entry.path().filename().native().starts_with("seed-")) fs::remove(entry.path());
  }
  for (std::size_t i = 0; i < seeds.size(); ++i) {
    replace_file(directory / str("seed-", i < 10 ? "0" : "", i), seeds[i]);
  }
}

template <typename Message>
std::vector<std::string> encoded(const std::vector<Message>& messages) {
  std::vector<std::string> seeds;
  seeds.reserve(messages.size());
  for (const Message& message : messages) seeds.push_back(encode(message));
  return seeds;
}

// Messages as another version wrote them, which nothing takes for ours.
std::string start_of_version_1() {
  std::string start = encode(wire::OwnerMessage(wire::Start{.id = 7, .argv = {"true"}}));
  constexpr std::size_t kSince = 1 + 8 + 4 + 1;  // remember, after, cgroups, no terminal
  start.resize(start.size() - kSince);
  return start;
}

std::vector<std::string> owner_messages() {
  std::vector<std::string> seeds = encoded(wire::samples::owner_messages());
  seeds.push_back(start_of_version_1());
  return seeds;
}

std::vector<std::string> guest_messages() {
  std::vector<std::string> seeds = encoded(wire::samples::guest_messages());
  seeds.push_back(encode(wire::GuestMessage(wire::Ready{.version = 1})));
  return seeds;
}

std::vector<std::string> keeper_messages() {
  std::vector<std::string> seeds = encoded(wire::samples::keeper_requests());
  for (const std::string& reply : encoded(wire::samples::keeper_replies())) seeds.push_back(reply);
  return seeds;
}

ScriptedPacket packet(const wire::GuestMessage& message, bool turn_after = false,
                      unsigned descriptors = 0) {
  return {.descriptors = descriptors, .turn_after = turn_after, .data = encode(message)};
}

// Of boxes that another owner made. The new one starts two processes behind the last id.
std::vector<std::string> takeovers() {
  const wire::Exited ended{.id = 3, .status = 0x100, .user_us = 1, .system_us = 2};
  const wire::Processes processes{
      .last_id = 4,
      .running = {{.id = 2, .pid = 7, .remember = true}, {.id = 4, .pid = 9}},
      .ended = {ended}};
  wire::Processes many{.last_id = 40, .running = {}, .ended = {}};
  for (std::uint64_t id = 1; id < 20; ++id) {
    many.running.push_back({.id = id, .pid = static_cast<std::int32_t>(id + 1), .remember = true});
    many.ended.push_back({.id = id + 20, .status = 9});
  }
  const auto script = [](std::vector<ScriptedPacket> packets) {
    return write_script({.taking_over = true, .packets = std::move(packets)});
  };
  return {
      script({packet(wire::Processes{}, true)}),
      script({packet(wire::Pong{}), packet(wire::Started{.id = 9, .pid = 3}), packet(ended),
              packet(processes, true), packet(wire::Exited{.id = 2}),
              packet(wire::Started{.id = 5, .pid = 10}), packet(wire::Exited{.id = 5}, true),
              packet(wire::Exited{.id = 6}), packet(wire::Exited{.id = 4, .status = 9})}),
      script({packet(processes, true), packet(wire::StartFailed{.id = 5}, true),
              packet(wire::Exited{.id = 3})}),
      script({packet(processes, true), packet(processes)}),
      script({packet(many, true, 2)}),
      script({packet(wire::Ready{})}),
      // Lists that contradict themselves.
      script({packet(
          wire::Processes{.last_id = 2, .running = {{2, 7, true}, {2, 8, false}}, .ended = {}})}),
      script({packet(wire::Processes{
          .last_id = 2, .running = {{2, 7, true}}, .ended = {{.id = 2}, {.id = 1}}})}),
      script({packet(wire::Processes{.last_id = 1, .running = {{2, 7, true}}, .ended = {}}, true),
              packet(wire::Started{.id = 2, .pid = 8}), packet(wire::Exited{.id = 2})}),
  };
}

std::vector<std::string> channel_scripts() {
  const wire::Started first{.id = 0, .pid = 2};
  const wire::Started second{.id = 1, .pid = 3};
  const wire::Exited first_exit{.id = 0, .status = 0x100};
  const wire::Exited second_exit{.id = 1, .status = 9};
  std::vector<std::string> seeds = {
      write_script({}),
      write_script({.processes = 2, .packets = {packet(second_exit, true), packet(second)}}),
      write_script({.processes = 1, .packets = {packet(first, true), packet(first_exit)}}),
      write_script(
          {.processes = 2, .packets = {packet(second), packet(first), packet(first_exit)}}),
      write_script({.processes = 1, .packets = {packet(wire::StartFailed{}), packet(first_exit)}}),
      write_script({.processes = 1, .packets = {packet(first, true, 1), packet(first, false, 2)}}),
      write_script({.processes = 1, .packets = {packet(first, false, 3)}}),
      write_script({.processes = 1, .packets = {{.data = ""}, packet(first)}}),
      write_script({.setting_up = true, .packets = {packet(wire::Ready{}), packet(first)}}),
      write_script({.setting_up = true,
                    .packets = {packet(wire::NetworkHandover{}, true, 2), packet(wire::Ready{})}}),
      write_script({.setting_up = true, .packets = {packet(wire::SetupFailed{"mount", 1})}}),
      write_script({.setting_up = true, .packets = {packet(first, false, 3)}}),
      write_script({.setting_up = true, .packets = {packet(wire::Ready{.version = 1})}}),
      write_script({.processes = 2,
                    .terminals = true,
                    .packets = {packet(first, true, 1), packet(second, true, 1), packet(first_exit),
                                packet(second_exit)}}),
      write_script({.processes = 1, .terminals = true, .packets = {packet(first, false, 2)}}),
      write_script(
          {.processes = 7, .packets = {{.descriptors = 0, .data = std::string(60'000, '\x84')}}}),
  };
  for (const wire::GuestMessage& message : wire::samples::guest_messages()) {
    seeds.push_back(write_script({.processes = 7, .packets = {packet(message), packet(first)}}));
  }
  for (std::string& script : takeovers()) seeds.push_back(std::move(script));
  return seeds;
}

std::vector<std::string> box_specs() {
  return {
      R"({"session_id": "s"})",
      R"({"session_id": " s ", "cmd": " echo hi ", "workdir": "/workspace/a/../b"})",
      R"({"session_id": "s", "network": "on", "timeout_sec": 5, "persistent": true})",
      R"({"session_id": "s", "network": "bridge"})",
      R"({"session_id": "s", "env": {"A": "1", "B": ""}})",
      R"({"session_id": "s", "env": {"A=B": "1"}})",
      R"({"session_id": "s", "host_path": "/srv/work", "host_path_mode": "ro"})",
      R"({"session_id": "s", "host_path": "/srv/w", "mount_path": "/project", "workdir": "/project"})",
      R"({"session_id": "s", "host_path": "/srv/w", "mount_path": "/project"})",
      R"({"session_id": "s", "host_path": null, "host_path_mode": "none"})",
      R"({"session_id": "s", "host_path": "C:\\work\\x", "mount_path": "/w", "workdir": "/w"})",
      R"({"session_id": "s", "extra_mounts": [{"host_path": "/a", "mount_path": "/b", "mode": "rw"}]})",
      R"({"session_id": "s", "extra_mounts": [{"host_path": "a", "mount_path": "b"}]})",
      R"({"session_id": "s", "cpus": 0.5, "memory_mb": 64, "pids_limit": 16})",
      R"({"session_id": "s", "cpus": "1.5", "memory_mb": "1_000", "pids_limit": 9.0})",
      R"({"session_id": "s", "cpus": 1e308, "memory_mb": 9223372036854775807})",
      R"({"session_id": "s", "cpus": -1})",
      R"({"session_id": "s", "memory_mb": 1e30, "timeout_sec": 18446744073709551615})",
      R"({"session_id": "s", "read_only_rootfs": "no", "workspace_quota_mb": 10})",
      R"({"session_id": "s", "skill_name": "pdf", "image": "python:3.12"})",
      R"({"session_id": "s", "skill_name": ""})",
      R"({"session_id": "nul\u0000inside"})",
      R"({"session_id": ""})",
      R"({"session_id": 7})",
      R"({"session_id": "s", "unknown": [1, {"x": null}]})",
      R"({})",
      R"([])",
      R"(null)",
  };
}

// One byte for the reader's role and the size of steps, then frames.
std::vector<std::string> websocket_frames() {
  const auto frame = [](net::Opcode opcode, std::string payload, bool final = true) {
    const net::MaskKey key = {'k', 'e', 'y', '!'};
    std::string bytes;
    net::append_frame_head(
        bytes, {.final = final, .opcode = opcode, .length = payload.size(), .mask = key});
    net::apply_mask(payload, key, 0);
    return bytes + payload;
  };
  const std::string close = net::encode_close({.code = net::CloseCode::normal, .text = "bye"});
  return {
      str("\x06", frame(net::Opcode::text, "text \xE2\x82\xAC"), frame(net::Opcode::close, close)),
      str("\x10", frame(net::Opcode::text, "in ", false), frame(net::Opcode::ping, "p"),
          frame(net::Opcode::continuation, "pieces")),
      str("\x20", frame(net::Opcode::binary, std::string(200, 'b')), frame(net::Opcode::pong, "")),
      str("\x40", frame(net::Opcode::binary, std::string(6000, 'b'))),
      str("\x40", frame(net::Opcode::text, "half \xE2\x82")),
      str("\x05", "\x81\x05", "plain", "\x88\x02\x03\xE8"),
      str("\x04", frame(net::Opcode::close, "\x03")),
  };
}

std::string journal_seed(std::uint64_t file_size, const std::string& beside) {
  return std::string(reinterpret_cast<const char*>(&file_size), sizeof file_size) + beside;
}

// The index of a journal that has these blocks and is kept from `begin` on.
std::string journal_index(const journal::Limits& limits, std::uint64_t begin,
                          std::uint64_t blocks) {
  const std::string empty = journal::BlockIndex::make(limits, 0);
  std::vector<std::uint64_t> memory(empty.size() / sizeof(std::uint64_t));
  std::memcpy(memory.data(), empty.data(), empty.size());
  journal::BlockIndex index(std::as_writable_bytes(std::span(memory)));
  for (std::uint64_t number = 0; number < blocks; ++number) {
    index.add({.number = number,
               .crc = static_cast<std::uint32_t>(number * 7),
               .completed_us = static_cast<std::int64_t>(number * 1000),
               .newlines = number * 3});
  }
  index.set_begin(begin);
  index.set_mark(0, begin);
  return journal_seed(blocks * journal::kBlockSize + 5,
                      {reinterpret_cast<const char*>(memory.data()), empty.size()});
}

std::vector<std::string> journal_seeds() {
  const journal::Limits small{.capacity = 4 * journal::kBlockSize};
  const journal::Limits hold{.capacity = 1, .overflow = journal::Overflow::hold};
  std::vector<std::string> seeds = {
      journal_seed(0, ""),
      journal_seed(0, journal::BlockIndex::make(small, 0)),
      journal_seed(700'000, journal::BlockIndex::make(hold, 700'000)),
      journal_index(small, 0, 3),
      journal_index(small, 17 * journal::kBlockSize, 20),
      journal_index(hold, 100, 1),
  };
  seeds.push_back(seeds[3].substr(0, 150));
  const fs::path directory = fs::temp_directory_path() / str("make_corpus-", ::getpid());
  fs::create_directory(directory);
  {
    journal::InputLog log = journal::InputLog::create(directory, "in");
    seeds.push_back(journal_seed(0, read_file(directory / "in.state")));
    log.append(7, "line\n");
    log.close();
    seeds.push_back(journal_seed(0, read_file(directory / "in.state")));
  }
  fs::remove_all(directory);
  return seeds;
}

// Offsets in the index are those of journal/block_index.cc.
std::vector<std::string> journal_scripts() {
  using fuzz::Change;
  constexpr std::uint32_t kBlock = journal::kBlockSize;
  constexpr std::uint32_t kBegin = 40;
  constexpr std::uint32_t kClosed = 48;
  constexpr std::uint32_t kBlocks = 56;
  constexpr std::uint32_t kRing = 128;
  const std::vector<Change> lines = {{Change::content, 10, '\n'},
                                     {Change::content, kBlock + 1, '\n'},
                                     {Change::content, 2 * kBlock + 99, '\n'}};
  const auto journal = [&](const Change& change) {
    fuzz::JournalScript script{.capacity = 2, .recorded = 2, .size = 2 * kBlock + 100};
    script.changes = lines;
    script.changes.push_back(change);
    return write_journal_script(script);
  };
  const auto input = [](unsigned pieces, std::uint32_t position, std::vector<Change> changes) {
    return write_journal_script(
        {.input = true, .recorded = pieces, .begin = position, .changes = std::move(changes)});
  };
  const auto script = [](const fuzz::JournalScript& s) { return write_journal_script(s); };
  return {
      script({}),
      script({.capacity = 4, .closed = true, .recorded = 3, .size = 4 * kBlock, .changes = lines}),
      script({.hold = true, .recorded = 1, .size = kBlock + 5, .begin = 100, .changes = lines}),
      script({.capacity = 2,
              .recorded = 3,
              .released = 20,
              .size = 3 * kBlock + 100,
              .begin = kBlock,
              .changes = lines}),
      script({.has_data = false, .recorded = 2, .size = 3 * kBlock}),
      script({.has_index = false, .recorded = 2, .size = kBlock}),
      script({.has_index = false}),
      script({.has_data = false, .has_index = false}),
      journal({Change::data, kBlock + 7, 'x'}),
      journal({Change::index_size, 200, 0}),
      journal({Change::index, 0, 0}),
      journal({Change::index, kBegin, kBlock + 1}),
      journal({Change::index, kBegin, ~std::uint64_t{0}}),
      journal({Change::index, kClosed, 2}),
      journal({Change::index, kBlocks, 0}),
      journal({Change::index, kBlocks, ~std::uint64_t{0}}),
      journal({Change::index, kRing + 8, 5}),
      // More blocks than the index has room for, none of which it knows.
      script({.hold = true,
              .released = 2,
              .size = 4 * kBlock,
              .changes = {{Change::index, kBegin, 0}, {Change::index, kBlocks, 0}}}),
      input(0, 0, {}),
      input(3, 7, {}),
      input(3, 16, {}),
      input(2, 5, {{Change::index, 8, 3}}),
      input(2, 0, {{Change::index_size, 20, 0}}),
      script({.closed = true, .has_data = false, .input = true, .recorded = 3, .size = 9}),
  };
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: make_corpus DIRECTORY\n", stderr);
    return 2;
  }
  const fs::path corpus = argv[1];
  write_seeds(corpus / "fuzz_owner_message", owner_messages());
  write_seeds(corpus / "fuzz_guest_message", guest_messages());
  write_seeds(corpus / "fuzz_launch_request", encoded(wire::samples::launch_requests()));
  write_seeds(corpus / "fuzz_launch_reply", encoded(wire::samples::launch_replies()));
  write_seeds(corpus / "fuzz_keeper_message", keeper_messages());
  write_seeds(corpus / "fuzz_guest_channel", channel_scripts());
  write_seeds(corpus / "fuzz_box_spec", box_specs());
  write_seeds(corpus / "fuzz_websocket_frames", websocket_frames());
  write_seeds(corpus / "fuzz_journal_index", journal_seeds());
  write_seeds(corpus / "fuzz_journal_file", journal_scripts());
  return 0;
}
