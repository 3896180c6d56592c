// The files of journals and input logs as the next owner finds them, whole or damaged. What can be
// used is what was written; what cannot is set aside, and something that can comes in its place.
#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/temporary_directory.h"
#include "fuzz.h"
#include "journal/crc32c.h"
#include "journal/input_log.h"
#include "journal/journal.h"
#include "journal_script.h"

namespace {

using namespace caisson;
using namespace caisson::journal;
using fuzz::Change;
using fuzz::JournalScript;
using fuzz::require;

constexpr const char* kName = "it";

// What the script wants to be in the data file behind what has been released.
std::string content_of(const JournalScript& script) {
  std::string content(script.size, '\0');
  for (const Change& change : script.changes) {
    if (change.what == Change::content && !content.empty()) {
      content[change.where % content.size()] = static_cast<char>(change.value);
    }
  }
  return content;
}

// The bytes of an index that has recorded this content.
std::string index_of(const JournalScript& script, const std::string& content) {
  const Limits limits{.capacity = script.capacity * kBlockSize,
                      .overflow = script.hold ? Overflow::hold : Overflow::release_oldest};
  const std::uint64_t released = script.released * kBlockSize;
  const std::string empty = BlockIndex::make(limits, released);
  std::vector<std::uint64_t> memory(empty.size() / sizeof(std::uint64_t));
  std::memcpy(memory.data(), empty.data(), empty.size());
  BlockIndex index(std::as_writable_bytes(std::span(memory)));
  std::uint64_t newlines = 0;
  for (std::uint64_t at = 0; at < script.recorded && (at + 1) * kBlockSize <= content.size();
       ++at) {
    const std::string_view block = std::string_view(content).substr(at * kBlockSize, kBlockSize);
    for (std::size_t line = block.find('\n'); line != std::string_view::npos;
         line = block.find('\n', line + 1)) {
      ++newlines;
    }
    index.add({.number = script.released + at,
               .crc = crc32c(block),
               .completed_us = static_cast<std::int64_t>(1000 * at),
               .newlines = newlines});
  }
  index.set_begin(released + script.begin);
  index.set_mark(Journal::kDelivered, script.begin);
  if (script.closed) index.set_closed();
  return {reinterpret_cast<const char*>(memory.data()), empty.size()};
}

void damage_index(const JournalScript& script, std::string& bytes) {
  for (const Change& change : script.changes) {
    if (change.what == Change::index && bytes.size() >= sizeof change.value) {
      const std::size_t places = bytes.size() - sizeof change.value + 1;
      std::memcpy(bytes.data() + change.where % places, &change.value, sizeof change.value);
    } else if (change.what == Change::index_size) {
      bytes.resize(change.where % (bytes.size() + 1));
    }
  }
}

// Sparse: what has been released takes no space.
void write_data(const std::string& path, std::uint64_t released, const std::string& content) {
  const UniqueFd file = open_file(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
  const auto size = static_cast<off_t>(released + content.size());
  check_syscall(path, ::ftruncate(file.get(), size));
  check_syscall(path, ::lseek(file.get(), static_cast<off_t>(released), SEEK_SET));
  write_all(file.get(), content, path);
}

// Where the last `count` lines begin in what is kept, found without an index.
std::uint64_t last_lines(std::string_view kept, std::uint64_t begin, std::uint64_t count) {
  if (count == 0) return begin + kept.size();
  std::size_t left = kept.size();
  if (kept.ends_with('\n')) --left;
  for (;;) {
    const void* const newline = ::memrchr(kept.data(), '\n', left);
    if (newline == nullptr) return begin;
    left = static_cast<std::size_t>(static_cast<const char*>(newline) - kept.data());
    if (--count == 0) return begin + left + 1;
  }
}

void check_reading(const Journal& journal) {
  std::string kept(journal.end() - journal.begin(), '\x7f');
  const ReadResult read = journal.read(journal.begin(), kept);
  require(!read.truncated && read.bytes == kept.size());
  for (const std::uint64_t count : {0u, 1u, 3u}) {
    require(journal.offset_of_last_lines(count) == last_lines(kept, journal.begin(), count));
  }
  std::uint64_t before = journal.begin();
  for (const std::int64_t time : {std::numeric_limits<std::int64_t>::min(), std::int64_t{0},
                                  std::int64_t{1500}, std::numeric_limits<std::int64_t>::max()}) {
    const std::uint64_t offset = journal.offset_at_time(time);
    require(offset >= before && offset <= journal.end());
    before = offset;
  }
}

// It takes what a process writes, and the next owner finds it again.
void check_going_on(const std::filesystem::path& directory, Journal& journal,
                    const Limits& limits) {
  const auto [read, write] = make_pipe();
  write_all(write.get(), std::string(3000, 'x') + '\n', "pipe");
  const std::uint64_t end = journal.end();
  const Drained drained = journal.drain(read.get(), 1u << 20);
  require(journal.end() == end + drained.bytes);
  require(drained.bytes == 3001 || drained.state == Drained::State::held);
  const Journal::Opened again = Journal::open(directory, kName, limits);
  require(!again.damage);
  require(again.journal->begin() == journal.begin() && again.journal->end() == journal.end());
  require(again.journal->mark(Journal::kDelivered) == journal.mark(Journal::kDelivered));
  require(again.journal->closed() == journal.closed());
  check_reading(*again.journal);
}

void play_journal(const JournalScript& script, const TemporaryDirectory& directory) {
  const std::string content = content_of(script);
  const std::uint64_t released = script.released * kBlockSize;
  std::string index = index_of(script, content);
  std::string data = content;
  damage_index(script, index);
  for (const Change& change : script.changes) {
    if (change.what == Change::data && !data.empty()) {
      data[change.where % data.size()] = static_cast<char>(change.value);
    }
  }
  if (script.has_data) write_data(directory / kName, released, data);
  if (script.has_index) replace_file(directory / (std::string(kName) + ".index"), index);
  const Limits limits{.capacity = 2 * kBlockSize};
  const Journal::Opened opened = Journal::open(directory.path(), kName, limits);
  Journal& journal = *opened.journal;
  require(script.has_data || opened.damage);
  if (script.has_data) require(journal.end() >= released + data.size());
  if (opened.damage) {
    require(!opened.damage->reason.empty() && journal.begin() == journal.end());
  } else {
    require(journal.end() == released + data.size());
  }
  check_reading(journal);
  check_going_on(directory.path(), journal, limits);
}

void use_input(InputLog& log, const TemporaryDirectory& directory) {
  require(log.position() <= log.end());
  const InputState before{log.end(), log.last_sequence(), log.closed()};
  const Appended appended = log.append(0, "more\n");
  require((appended == Appended::closed) == before.closed);
  if (appended == Appended::written) require(log.end() == before.end + 5);
  const auto [read, write] = make_pipe();
  const std::uint64_t queued = log.queued();
  const Fed fed = log.feed(write.get(), 4096);
  require(fed.bytes <= queued && log.queued() <= queued - fed.bytes);
  UniqueFd kept(check_syscall("input log", ::dup(log.descriptor())));
  const InputLog again = InputLog::open(directory.path(), kName, std::move(kept)).log;
  require(again.end() == log.end() && again.last_sequence() == log.last_sequence() &&
          again.closed() == log.closed() && again.position() == log.position());
}

void play_input(const JournalScript& script, const TemporaryDirectory& directory) {
  UniqueFd kept;
  {
    InputLog log = InputLog::create(directory.path(), kName);
    for (unsigned piece = 0; piece < script.recorded; ++piece) log.append(piece + 1, "line\n");
    if (script.closed) log.close();
    kept = UniqueFd(check_syscall("input log", ::dup(log.descriptor())));
  }
  const std::string state_path = directory / (std::string(kName) + ".state");
  std::string state = read_file(state_path);
  damage_index(script, state);
  replace_file(state_path, state);
  if (!script.has_data) check_syscall("input log", ::ftruncate(kept.get(), script.size));
  check_syscall("input log", ::lseek(kept.get(), script.begin, SEEK_SET));
  InputLog log = InputLog::open(directory.path(), kName, std::move(kept)).log;
  use_input(log, directory);
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const JournalScript script = fuzz::read_journal_script(fuzz::text(data, size));
  const TemporaryDirectory directory;
  if (script.input) {
    play_input(script, directory);
  } else {
    play_journal(script, directory);
  }
  return 0;
}
