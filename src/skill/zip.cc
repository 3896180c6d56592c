#include "skill/zip.h"

#include <archive.h>
#include <archive_entry.h>

#include <memory>

#include "base/error.h"
#include "base/str.h"
#include "base/text.h"
#include "skill/limits.h"
#include "skill/zip_record.h"

namespace caisson::skill {

namespace {

void append_number(std::string& record, std::uint64_t value, unsigned bytes) {
  for (; bytes > 0; --bytes, value >>= 8) record.push_back(static_cast<char>(value & 0xFF));
}

// libarchive gets an archive of this one entry, with a header that we have made from what was
// judged: it only decompresses, and there is nothing else for it to find or to believe.
class SingleEntry {
 public:
  explicit SingleEntry(const ZipEntry& entry) : data_(entry.data) {
    append_number(header_, 0x04034b50, 4);
    append_number(header_, 20, 2);  // version needed
    append_number(header_, 0, 2);   // flags
    append_number(header_, entry.method, 2);
    append_number(header_, 0x00210000, 4);  // 1980-01-01
    append_number(header_, entry.crc, 4);
    append_number(header_, entry.data.size(), 4);
    append_number(header_, entry.size, 4);
    append_number(header_, 1, 2);  // bytes of the name
    append_number(header_, 0, 2);  // and of extra fields
    header_.push_back('x');
  }

  // The header, then the data, then the end.
  static la_ssize_t read(archive*, void* self, const void** buffer) {
    auto& entry = *static_cast<SingleEntry*>(self);
    std::string_view piece;
    if (entry.step_ < 2) piece = entry.step_ == 0 ? std::string_view(entry.header_) : entry.data_;
    ++entry.step_;
    *buffer = piece.data();
    return static_cast<la_ssize_t>(piece.size());
  }

 private:
  std::string header_;
  std::string_view data_;
  int step_ = 0;
};

struct FreeArchive {
  void operator()(archive* reader) const { ::archive_read_free(reader); }
};

[[noreturn]] void refuse_size(const ZipEntry& entry) {
  model::refuse(str("Archive entry size changed while extracting: ", printable(entry.path)));
}

}  // namespace

void unpack(const ZipEntry& entry, const std::function<void(std::string_view)>& use) {
  if (entry.size == 0 && entry.data.empty()) return;
  SingleEntry source(entry);
  const std::unique_ptr<archive, FreeArchive> reader(::archive_read_new());
  if (!reader) throw Error(ErrorCode::internal_error, "libarchive: no memory for a reader");
  // Without seeking, so that nothing but the header at the beginning counts.
  ::archive_read_support_format_zip_streamable(reader.get());
  archive_entry* header = nullptr;
  if (::archive_read_open(reader.get(), &source, nullptr, SingleEntry::read, nullptr) !=
          ARCHIVE_OK ||
      ::archive_read_next_header(reader.get(), &header) != ARCHIVE_OK) {
    refuse_zip();
  }
  std::uint64_t size = 0;
  for (;;) {
    const void* data = nullptr;
    std::size_t bytes = 0;
    la_int64_t offset = 0;
    const int result = ::archive_read_data_block(reader.get(), &data, &bytes, &offset);
    if (result == ARCHIVE_EOF) break;
    if (result != ARCHIVE_OK && result != ARCHIVE_WARN) refuse_zip();
    size += bytes;
    if (size > entry.size) refuse_size(entry);
    // A warning is about what has been read as a whole: its size, its checksum.
    if (result == ARCHIVE_WARN && size == entry.size) refuse_zip();
    if (result == ARCHIVE_WARN) refuse_size(entry);
    use({static_cast<const char*>(data), bytes});
  }
  if (size != entry.size) refuse_size(entry);
}

std::string read_archive(int fd) {
  std::string bytes;
  std::string piece(256u << 10, '\0');
  off_t offset = 0;
  // What is too much is refused by its size, so that one byte more than allowed is enough.
  while (bytes.size() <= kMaxArchiveBytes) {
    const ssize_t got = ::pread(fd, piece.data(), piece.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    check_syscall("uploaded archive", got);
    if (got == 0) break;
    bytes.append(piece, 0, static_cast<std::size_t>(got));
    offset += got;
  }
  return bytes;
}

}  // namespace caisson::skill
