#include "skill/zip_directory.h"

#include <sys/stat.h>

#include <algorithm>
#include <limits>
#include <set>

#include "base/str.h"
#include "base/text.h"
#include "base/unicode.h"
#include "base/utf8.h"
#include "skill/limits.h"
#include "skill/zip_record.h"

namespace caisson::skill {

namespace {

// APPNOTE.TXT of PKWARE, sections 4.3.7 to 4.5.3.
constexpr std::uint32_t kLocalHeader = 0x04034b50;
constexpr std::uint32_t kDirectoryHeader = 0x02014b50;
constexpr std::uint32_t kEnd = 0x06054b50;
constexpr std::uint32_t kZip64End = 0x06064b50;
constexpr std::uint32_t kZip64Locator = 0x07064b50;
constexpr std::size_t kEndBytes = 22;
constexpr std::size_t kLocatorBytes = 20;
constexpr std::size_t kZip64EndBytes = 56;
constexpr std::uint16_t kZip64Extra = 0x0001;
constexpr std::uint16_t kNot16 = 0xFFFF;      // "see the zip64 record"
constexpr std::uint32_t kNot32 = 0xFFFFFFFF;  // likewise

constexpr std::uint16_t kEncrypted = 1u << 0 | 1u << 6 | 1u << 13;
constexpr std::uint16_t kSizesFollow = 1u << 3;
constexpr std::uint16_t kUtf8 = 1u << 11;

// The upper half of code page 437, in which names are that are not said to be UTF-8.
constexpr std::u32string_view kCodePage437 =
    U"ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜ¢£¥₧ƒáíóúñÑªº¿⌐¬½¼¡«»░▒▓│┤╡╢╖╕╣║╗╝╜╛┐"
    U"└┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\u00A0";
static_assert(kCodePage437.size() == 128);

[[noreturn]] void refuse_entry(std::string_view sentence, std::string_view name) {
  model::refuse(str(sentence, ": ", printable(name)));
}

struct Directory {
  std::uint64_t entries = 0;
  std::uint64_t size = 0;
  std::uint64_t offset = 0;
};

Directory read_zip64_end(std::string_view archive, std::size_t end) {
  if (end < kLocatorBytes + kZip64EndBytes) refuse_zip();
  ZipRecord locator(archive, end - kLocatorBytes);
  locator.expect(kZip64Locator);
  const std::uint32_t disk = locator.u32();
  const std::uint64_t at = locator.u64();
  // It has no extension, and stands right before its locator.
  if (disk != 0 || locator.u32() != 1 || at != end - kLocatorBytes - kZip64EndBytes) refuse_zip();
  ZipRecord record(archive, at);
  record.expect(kZip64End);
  if (record.u64() != kZip64EndBytes - 12) refuse_zip();
  record.skip(4);  // versions
  if (record.u32() != 0 || record.u32() != 0) refuse_zip();
  const std::uint64_t here = record.u64();
  const Directory directory{.entries = record.u64(), .size = record.u64(), .offset = record.u64()};
  const bool adjoins = directory.offset <= at && directory.size == at - directory.offset;
  if (here != directory.entries || !adjoins) refuse_zip();
  return directory;
}

Directory read_end(std::string_view archive, std::size_t end) {
  ZipRecord record(archive, end);
  record.skip(4);
  if (record.u16() != 0 || record.u16() != 0) refuse_zip();  // one disk
  const std::uint16_t here = record.u16();
  const Directory directory{.entries = record.u16(), .size = record.u32(), .offset = record.u32()};
  if (directory.entries == kNot16 || directory.size == kNot32 || directory.offset == kNot32) {
    return read_zip64_end(archive, end);
  }
  const bool adjoins = directory.offset <= end && directory.size <= end - directory.offset;
  if (here != directory.entries || !adjoins) refuse_zip();
  // A writer may have put zip64 records although it needs none.
  const std::uint64_t gap = end - directory.offset - directory.size;
  if (gap != 0 && gap != kLocatorBytes + kZip64EndBytes) refuse_zip();
  if (gap != 0) return read_zip64_end(archive, end);
  return directory;
}

// The end record is the last that is there, and its comment goes to the end of the file.
Directory find_directory(std::string_view archive) {
  if (archive.size() < kEndBytes) refuse_zip();
  const std::size_t last = archive.size() - kEndBytes;
  const std::size_t first = last - std::min<std::size_t>(last, kNot16);
  for (std::size_t at = last;; --at) {
    ZipRecord record(archive, at);
    if (record.u32() == kEnd) {
      record.skip(kEndBytes - 6);
      if (record.u16() == last - at) return read_end(archive, at);
    }
    if (at == first) refuse_zip();
  }
}

struct Header {
  std::uint16_t flags = 0;
  std::uint16_t method = 0;
  std::uint32_t crc = 0;
  std::uint64_t compressed = 0;
  std::uint64_t size = 0;
  std::uint32_t mode = 0;
  std::uint64_t offset = 0;
  std::string_view raw_name;
};

// Numbers that do not fit into 32 bits stand in an extra field, in this order.
void read_zip64_extra(std::string_view extra, Header& header, std::uint32_t disk) {
  if (disk != 0 && disk != kNot16) refuse_zip();
  ZipRecord fields(extra);
  while (fields.left() >= 4) {
    const std::uint16_t id = fields.u16();
    const std::string_view content = fields.bytes(fields.u16());
    if (id != kZip64Extra) continue;
    ZipRecord numbers(content);
    if (header.size == kNot32) header.size = numbers.u64();
    if (header.compressed == kNot32) header.compressed = numbers.u64();
    if (header.offset == kNot32) header.offset = numbers.u64();
    if (disk == kNot16 && numbers.u32() != 0) refuse_zip();
    return;
  }
  if (disk != 0) refuse_zip();
}

Header read_header(ZipRecord& record) {
  Header header;
  record.expect(kDirectoryHeader);
  record.skip(4);  // versions
  header.flags = record.u16();
  header.method = record.u16();
  record.skip(4);  // time
  header.crc = record.u32();
  header.compressed = record.u32();
  header.size = record.u32();
  const std::uint16_t name_bytes = record.u16();
  const std::uint16_t extra_bytes = record.u16();
  const std::uint16_t comment_bytes = record.u16();
  const std::uint16_t disk = record.u16();
  record.skip(2);
  header.mode = record.u32() >> 16;
  header.offset = record.u32();
  header.raw_name = record.bytes(name_bytes);
  read_zip64_extra(record.bytes(extra_bytes), header, disk);
  record.skip(comment_bytes);
  return header;
}

// Many writers put UTF-8 without saying so, so that what can be read as UTF-8 is.
std::string decode_name(const Header& header) {
  std::string name = decode_utf8(header.raw_name);
  if (name == header.raw_name) return name;
  if ((header.flags & kUtf8) != 0) refuse_entry("Archive contains an unsafe path", name);
  name.clear();
  for (const char byte : header.raw_name) {
    const auto code = static_cast<unsigned char>(byte);
    append_utf8(name, code < 0x80 ? code : kCodePage437[code - 0x80u]);
  }
  return name;
}

// The path in normal form, for every system on which somebody may unpack it.
std::string check_path(const std::string& name) {
  if (name.empty() || name.find('\0') != std::string::npos) {
    model::refuse("Archive contains an unsafe empty or NUL path");
  }
  const auto unsafe = [&] { refuse_entry("Archive contains an unsafe path", name); };
  std::string portable = name;
  std::replace(portable.begin(), portable.end(), '\\', '/');
  if (portable.starts_with('/') || portable.size() > kMaxPathBytes) unsafe();
  std::vector<std::string> parts;
  for (const std::string_view part : split(portable, '/')) {
    if (part.empty() || part == ".") continue;
    if (part == ".." || part.size() > kMaxNameBytes) unsafe();
    parts.emplace_back(part);
  }
  if (parts.empty() || parts.size() > kMaxDepth) unsafe();
  if (parts.front().size() >= 2 && parts.front()[1] == ':') unsafe();
  return join(parts, "/");
}

std::string case_normalised(const std::string& path) {
  std::string key;
  for (const char32_t c : to_utf32(path)) append_utf8(key, to_lower(c));
  return key;
}

// What the paths of an archive take up, whatever their case: a file once, a directory any number
// of times as the parent of something.
class Paths {
 public:
  void add(const std::string& path, bool is_directory, const std::string& name) {
    const std::string key = case_normalised(path);
    bool taken = !named_.insert(key).second;
    if (!is_directory) taken = !files_.insert(key).second || parents_.contains(key) || taken;
    for (std::size_t slash = key.find('/'); slash != std::string::npos;
         slash = key.find('/', slash + 1)) {
      const std::string parent = key.substr(0, slash);
      taken = taken || files_.contains(parent);
      parents_.insert(parent);
    }
    if (taken) refuse_entry("Archive contains a duplicate path", name);
  }

 private:
  std::set<std::string> named_;
  std::set<std::string> files_;
  std::set<std::string> parents_;
};

class Judge {
 public:
  explicit Judge(std::string_view archive) : archive_(archive) {}

  std::vector<ZipEntry> run() {
    const Directory directory = find_directory(archive_);
    if (directory.entries > kMaxEntries) {
      model::refuse(str("Archive contains too many entries (maximum ", kMaxEntries, ")"));
    }
    content_end_ = directory.offset;
    ZipRecord record(
        archive_.substr(0, static_cast<std::size_t>(directory.offset + directory.size)),
        directory.offset);
    for (std::uint64_t i = 0; i < directory.entries; ++i) add(read_header(record));
    if (record.left() != 0) refuse_zip();
    if (size_ > kMaxRatio * compressed_) {
      model::refuse("Archive exceeds the aggregate compression ratio limit");
    }
    check_overlaps();
    return std::move(entries_);
  }

 private:
  void add(const Header& header) {
    const std::string name = decode_name(header);
    ZipEntry entry{.path = check_path(name), .method = header.method, .crc = header.crc};
    judge_kind(header, name, entry);
    paths_.add(entry.path, entry.is_directory, name);
    if ((header.flags & kEncrypted) != 0) {
      refuse_entry("Archive contains an encrypted entry", name);
    }
    if (!entry.is_directory) judge_size(header, name);
    entry.size = header.size;
    entry.data = locate(header, name);
    entries_.push_back(std::move(entry));
  }

  static void judge_kind(const Header& header, const std::string& name, ZipEntry& entry) {
    const std::uint32_t type = header.mode & S_IFMT;
    if (type == S_IFLNK) refuse_entry("Archive contains a symbolic link", name);
    if (type != 0 && type != S_IFREG && type != S_IFDIR) {
      refuse_entry("Archive contains a non-regular entry", name);
    }
    entry.is_directory = name.ends_with('/') || name.ends_with('\\') || type == S_IFDIR;
    entry.is_executable = (header.mode & 0111) != 0;
    if (entry.is_directory && header.size != 0) {
      refuse_entry("Archive directory has unexpected content", name);
    }
  }

  void judge_size(const Header& header, const std::string& name) {
    if (header.size > kMaxFileBytes) {
      refuse_entry("Archive entry exceeds the uncompressed size limit", name);
    }
    if (header.compressed > archive_.size() ||
        (header.method == kStored && header.compressed != header.size)) {
      refuse_entry("Archive contains invalid size metadata", name);
    }
    if (header.size > kMaxRatio * header.compressed) {
      refuse_entry("Archive entry exceeds the compression ratio limit", name);
    }
    if (header.method != kStored && header.method != kDeflated) {
      refuse_entry("Archive entry has an unsupported compression method", name);
    }
    compressed_ += header.compressed;
    size_ += header.size;
    if (size_ > kMaxTotalBytes) {
      model::refuse("Archive exceeds the total uncompressed size limit");
    }
  }

  // Where the data is stands only in the local header, which another reader may believe instead.
  std::string_view locate(const Header& header, const std::string& name) {
    const std::string_view content = archive_.substr(0, static_cast<std::size_t>(content_end_));
    ZipRecord record(content, header.offset);
    record.expect(kLocalHeader);
    record.skip(2);
    const std::uint16_t flags = record.u16();
    const std::uint16_t method = record.u16();
    record.skip(8);  // time and checksum
    const std::uint32_t compressed = record.u32();
    const std::uint32_t size = record.u32();
    const std::uint16_t name_bytes = record.u16();
    const std::uint16_t extra_bytes = record.u16();
    if ((flags & kEncrypted) != 0) refuse_entry("Archive contains an encrypted entry", name);
    if ((flags & kSizesFollow) == 0) {
      const bool same_size = size == header.size || size == kNot32;
      if (!same_size || (compressed != header.compressed && compressed != kNot32)) {
        refuse_entry("Archive contains invalid size metadata", name);
      }
    }
    if (method != header.method || record.bytes(name_bytes) != header.raw_name) refuse_zip();
    record.skip(extra_bytes);
    const std::string_view data = record.bytes(header.compressed);
    const auto end = static_cast<std::uint64_t>(data.data() + data.size() - archive_.data());
    spans_.push_back({header.offset, end, printable(name)});
    return data;
  }

  void check_overlaps() {
    std::sort(spans_.begin(), spans_.end(),
              [](const Span& a, const Span& b) { return a.begin < b.begin; });
    std::uint64_t end = 0;
    for (const Span& span : spans_) {
      if (span.begin < end) refuse_entry("Archive contains overlapping entries", span.name);
      end = span.end;
    }
  }

  struct Span {
    std::uint64_t begin;
    std::uint64_t end;
    std::string name;
  };

  std::string_view archive_;
  std::uint64_t content_end_ = 0;
  std::uint64_t compressed_ = 0;
  std::uint64_t size_ = 0;
  Paths paths_;
  std::vector<Span> spans_;
  std::vector<ZipEntry> entries_;
};

}  // namespace

std::vector<ZipEntry> read_zip_directory(std::string_view archive) {
  if (archive.empty()) model::refuse("Uploaded file is empty");
  if (archive.size() > kMaxArchiveBytes) {
    model::refuse(
        str("Uploaded archive exceeds the compressed size limit (", kMaxArchiveBytes, " bytes)"));
  }
  return Judge(archive).run();
}

}  // namespace caisson::skill
