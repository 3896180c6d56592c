#include "skill/zip.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <span>

#include "base/file.h"
#include "model/refusal_for_test.h"
#include "skill/limits.h"
#include "skill/zip_for_test.h"

namespace caisson::skill {
namespace {

using testing::StartsWith;

constexpr const char* kInvalid = "Uploaded file must be a valid .zip archive";

std::string content_of(const ZipEntry& entry) {
  std::string content;
  unpack(entry, [&](std::string_view piece) { content += piece; });
  return content;
}

// Judged and decompressed; "" when it is sound.
std::string refusal(const std::string& archive) {
  return model::refusal_of([&] {
    for (const ZipEntry& entry : read_zip_directory(archive)) {
      if (!entry.is_directory) content_of(entry);
    }
  });
}
std::string refusal(const RawEntry& entry) {
  return refusal(RawZip().add("before", "x").add(entry).bytes());
}
std::string refusal_of_name(const std::string& name) {
  return refusal(RawEntry{.name = name, .data = "x"});
}

TEST(Zip, ReadsWhatOthersWrite) {
  std::string varied;
  for (int i = 0; i < 20'000; ++i) varied += std::to_string(i * i);
  const std::string archive =
      real_zip({{"d/", ""}, {"d/varied", varied}, {"d/run.sh", "#!/bin/sh\n"}, {"empty", ""}});
  const std::vector<ZipEntry> entries = read_zip_directory(archive);
  ASSERT_EQ(entries.size(), 4u);
  EXPECT_EQ(entries[0].path, "d");
  EXPECT_TRUE(entries[0].is_directory);
  EXPECT_EQ(entries[1].path, "d/varied");
  EXPECT_FALSE(entries[1].is_executable);
  EXPECT_LT(entries[1].data.size(), varied.size());
  EXPECT_EQ(content_of(entries[1]), varied);
  EXPECT_TRUE(entries[2].is_executable);
  EXPECT_EQ(content_of(entries[3]), "");
}

TEST(Zip, ReadsStoredAndDeflatedEntriesAndZip64Records) {
  const std::string text = "some text";
  RawZip zip;
  zip.zip64 = true;
  zip.comment = "PK\x05\x06 in a comment, which goes on for a while";
  zip.add("stored", text);
  zip.add({.name = "deflated",
           .data = as_deflated(text),
           .method = kDeflated,
           .size = static_cast<std::uint32_t>(text.size()),
           .crc = crc32_of(text)});
  std::string extra;
  RawZip::put(extra, 0x5455, 2);  // another field before
  RawZip::put(extra, 1, 2);
  RawZip::put(extra, 3, 1);
  RawZip::put(extra, 1, 2);
  RawZip::put(extra, 16, 2);
  RawZip::put(extra, text.size(), 8);
  RawZip::put(extra, text.size(), 8);
  zip.add({.name = "large",
           .data = text,
           .size = 0xFFFFFFFF,
           .compressed = 0xFFFFFFFF,
           .extra = extra});
  const std::string archive = zip.bytes();
  for (const ZipEntry& entry : read_zip_directory(archive)) {
    EXPECT_EQ(content_of(entry), text) << entry.path;
  }
}

TEST(Zip, RefusesWhatIsNoArchive) {
  EXPECT_EQ(refusal(std::string()), "Uploaded file is empty");
  EXPECT_EQ(refusal(std::string(kMaxArchiveBytes + 1, 'x')),
            "Uploaded archive exceeds the compressed size limit (20971520 bytes)");
  const std::string sound = RawZip().add("a", "content").bytes();
  ASSERT_EQ(refusal(sound), "");
  EXPECT_EQ(refusal(std::string("text")), kInvalid);
  EXPECT_EQ(refusal(std::string(5000, 'x')), kInvalid);
  EXPECT_EQ(refusal(sound + "x"), kInvalid) << "something behind it";
  for (std::size_t size = 1; size < sound.size(); ++size) {
    EXPECT_EQ(refusal(sound.substr(0, size)), kInvalid) << "cut at " << size;
  }
  RawZip shifted;
  shifted.before = "#!/bin/sh\n";
  EXPECT_EQ(refusal(shifted.add("a", "x").bytes()), kInvalid) << "something before it";
  RawZip fewer;
  fewer.entries = 1;
  EXPECT_EQ(refusal(fewer.add("a", "x").add("b", "x").bytes()), kInvalid);
  RawZip more;
  more.entries = 3;
  EXPECT_EQ(refusal(more.add("a", "x").add("b", "x").bytes()), kInvalid);
}

TEST(Zip, RefusesNamesThatLeadAnywhereElse) {
  for (const char* name : {"/etc/passwd", "../x", "a/../../x", "a/../b", "..", ".", "./", "C:\\x",
                           "c:x", "\\x", "..\\x", "a\\..\\..\\x", "//x"}) {
    EXPECT_EQ(refusal_of_name(name), std::string("Archive contains an unsafe path: ") + name);
  }
  const std::string empty_or_nul = "Archive contains an unsafe empty or NUL path";
  EXPECT_EQ(refusal_of_name(""), empty_or_nul);
  EXPECT_EQ(refusal_of_name(std::string("a\0b", 3)), empty_or_nul);
  EXPECT_THAT(refusal_of_name("a\xFF"), StartsWith("Archive contains an unsafe path: a"));
  EXPECT_THAT(refusal_of_name(std::string(256, 'n')),
              StartsWith("Archive contains an unsafe path"));
  std::string deep = "d";
  for (int i = 0; i < 32; ++i) deep += "/d";
  EXPECT_THAT(refusal_of_name(deep), StartsWith("Archive contains an unsafe path: d/d"));
  EXPECT_EQ(refusal_of_name(deep.substr(2)), "");
  EXPECT_EQ(refusal_of_name("bell\a/.."), "Archive contains an unsafe path: bell\\x07/..");
}

TEST(Zip, ReadsNamesInUtf8AndOtherwiseInCodePage437) {
  const auto path_of = [](const std::string& name, std::uint16_t flags) {
    const std::string archive =
        RawZip().add(RawEntry{.name = name, .data = "x", .flags = flags}).bytes();
    return read_zip_directory(archive).front().path;
  };
  EXPECT_EQ(path_of("网页/a", 1u << 11), "网页/a");
  EXPECT_EQ(path_of("网页/a", 0), "网页/a");
  EXPECT_EQ(path_of("caf\x82", 0), "café");
  EXPECT_EQ(path_of("a\\b", 0), "a/b");
}

TEST(Zip, RefusesTheSamePlaceTwice) {
  const std::pair<const char*, const char*> rows[] = {
      {"a", "a"},   {"a", "A"},   {"d/a", "D/A"}, {"a", "./a"}, {"a", "a/b"},
      {"a/b", "a"}, {"A/b", "a"}, {"d/", "d"},    {"d/", "D/"}, {"ä", "Ä"}};
  for (const auto& [first, second] : rows) {
    const auto entry = [](const std::string& name) {
      return RawEntry{.name = name, .data = name.ends_with('/') ? "" : "x"};
    };
    EXPECT_EQ(refusal(RawZip().add(entry(first)).add(entry(second)).bytes()),
              std::string("Archive contains a duplicate path: ") + second)
        << first;
  }
  EXPECT_EQ(refusal(RawZip().add("d/a", "x").add({.name = "d/"}).add("d/b", "y").bytes()), "");
}

TEST(Zip, RefusesEverythingButFilesAndDirectories) {
  const auto of_mode = [](std::uint32_t mode) {
    return refusal(RawEntry{.name = "e", .data = "target", .mode = mode});
  };
  EXPECT_EQ(of_mode(0120777), "Archive contains a symbolic link: e");
  for (const std::uint32_t mode : {0010644u, 0020644u, 0060644u, 0140644u, 0160644u}) {
    EXPECT_EQ(of_mode(mode), "Archive contains a non-regular entry: e") << std::oct << mode;
  }
  EXPECT_EQ(of_mode(0040755), "Archive directory has unexpected content: e");
  EXPECT_EQ(of_mode(0), "");
  EXPECT_EQ(of_mode(0104755), "") << "set-user-id is dropped, not refused";
  EXPECT_EQ(refusal(RawEntry{.name = "d/", .data = "x"}),
            "Archive directory has unexpected content: d/");
  const std::string directory = RawZip().add({.name = "d", .mode = 0040755}).bytes();
  EXPECT_TRUE(read_zip_directory(directory).front().is_directory);
}

TEST(Zip, RefusesEncryptedEntriesAndUnknownMethods) {
  for (const unsigned bit : {0u, 6u, 13u}) {
    EXPECT_EQ(
        refusal(RawEntry{.name = "e", .data = "x", .flags = static_cast<std::uint16_t>(1u << bit)}),
        "Archive contains an encrypted entry: e");
  }
  for (const int method : {1, 9, 12, 14, 93, 99}) {
    EXPECT_EQ(
        refusal(RawEntry{.name = "e", .data = "x", .method = static_cast<std::uint16_t>(method)}),
        "Archive entry has an unsupported compression method: e");
  }
}

TEST(Zip, JudgesSizesBeforeAnythingIsDecompressed) {
  const auto with = [](std::uint32_t size, std::size_t data) {
    return RawEntry{.name = "e", .data = std::string(data, 'x'), .method = kDeflated, .size = size};
  };
  const std::string too_large = "Archive entry exceeds the uncompressed size limit: e";
  const std::string too_dense = "Archive entry exceeds the compression ratio limit: e";
  EXPECT_EQ(refusal(with(kMaxFileBytes + 1, 200'000)), too_large);
  EXPECT_EQ(refusal(with(0xFFFFFFFE, 10)), too_large);
  EXPECT_EQ(refusal(with(1001, 10)), too_dense);
  EXPECT_EQ(refusal(with(1, 0)), too_dense);
  RawEntry bomb = with(0xFFFFFFFF, 100);
  RawZip::put(bomb.extra, 1, 2);
  RawZip::put(bomb.extra, 8, 2);
  RawZip::put(bomb.extra, 1ull << 60, 8);
  EXPECT_EQ(refusal(bomb), too_large) << "zip64";
  EXPECT_EQ(refusal(RawEntry{.name = "e", .data = "x", .size = 2}),
            "Archive contains invalid size metadata: e");
  EXPECT_EQ(refusal(RawEntry{.name = "e", .data = "x", .compressed = 0x7FFFFFFF}),
            "Archive contains invalid size metadata: e");

  RawZip total;
  for (int i = 0; i < 5; ++i) {
    RawEntry entry = with(kMaxFileBytes, 170'000);
    entry.name = std::to_string(i);
    total.add(entry);
  }
  EXPECT_EQ(refusal(total.bytes()), "Archive exceeds the total uncompressed size limit");
}

TEST(Zip, RefusesTooManyEntries) {
  RawZip zip;
  for (std::size_t i = 0; i < kMaxEntries; ++i) zip.add(std::to_string(i), "");
  EXPECT_EQ(refusal(zip.bytes()), "");
  zip.add("one more", "");
  EXPECT_EQ(refusal(zip.bytes()), "Archive contains too many entries (maximum 512)");
}

TEST(Zip, RefusesEntriesThatShareBytes) {
  RawZip zip;
  zip.add("a", "content");
  zip.add({.name = "b", .data = "content", .local_name = "b"});
  ASSERT_EQ(refusal(zip.bytes()), "");
  // Both in the bytes of one local header: the name tells.
  EXPECT_EQ(refusal(RawZip().add("a", "x").add({.name = "b", .data = "x", .offset = 0}).bytes()),
            kInvalid);
  // A whole archive as the content of an entry, whose entries are listed once more.
  const std::string inner = RawZip().add("inner", "x").bytes();
  const auto inside = static_cast<std::uint32_t>(30 + 5);
  EXPECT_THAT(refusal(RawZip()
                          .add("outer", inner)
                          .add({.name = "inner", .data = "x", .offset = inside})
                          .bytes()),
              StartsWith("Archive contains overlapping entries: inner"));
}

TEST(Zip, RefusesALocalHeaderThatSaysSomethingElse) {
  EXPECT_EQ(refusal(RawEntry{.name = "e", .data = "x", .local_name = "f"}), kInvalid);
  EXPECT_EQ(refusal(RawEntry{.name = "e", .data = "x", .offset = 0x7FFFFFFF}), kInvalid);
  std::string archive = RawZip().add("e", "xxxx").bytes();
  archive[18] = 2;  // the compressed size in the local header
  EXPECT_EQ(refusal(archive), "Archive contains invalid size metadata: e");
  archive = RawZip().add("e", "xxxx").bytes();
  archive[6] = 1;  // its flags
  EXPECT_EQ(refusal(archive), "Archive contains an encrypted entry: e");
}

TEST(Zip, RefusesContentThatIsNotWhatTheDirectorySays) {
  const std::string text = "some text that is longer than said";
  const auto lying = [&](std::uint32_t size, std::uint32_t crc) {
    return refusal(RawEntry{
        .name = "e", .data = as_deflated(text), .method = kDeflated, .size = size, .crc = crc});
  };
  const auto size = static_cast<std::uint32_t>(text.size());
  const std::string changed = "Archive entry size changed while extracting: e";
  EXPECT_EQ(lying(size, crc32_of(text)), "");
  EXPECT_EQ(lying(size - 1, crc32_of(text)), changed);
  EXPECT_EQ(lying(1, crc32_of(text)), changed);
  EXPECT_EQ(lying(size + 1, crc32_of(text)), changed);
  EXPECT_EQ(lying(size, 0), kInvalid) << "checksum";
  EXPECT_EQ(refusal(RawEntry{.name = "e", .data = "stored", .crc = 1}), kInvalid);
  EXPECT_NE(refusal(RawEntry{.name = "e", .data = "no deflate stream", .method = kDeflated}), "");
  EXPECT_NE(
      refusal(RawEntry{
          .name = "e", .data = as_deflated(text).substr(0, 9), .method = kDeflated, .size = size}),
      "");
}

TEST(Zip, RefusesARealBomb) {
  EXPECT_EQ(refusal(real_zip({{"zeros", std::string(8u << 20, '\0')}})),
            "Archive entry exceeds the compression ratio limit: zeros");
}

TEST(Zip, SurvivesEveryByteChanged) {
  const std::string sound = real_zip({{"d/", ""}, {"d/SKILL.md", "text text text"}, {"b", "x"}});
  ASSERT_EQ(refusal(sound), "");
  for (std::size_t at = 0; at < sound.size(); ++at) {
    for (const unsigned flip : {0x01u, 0x80u, 0xFFu}) {
      std::string changed = sound;
      changed[at] = static_cast<char>(static_cast<unsigned char>(changed[at]) ^ flip);
      refusal(changed);
    }
  }
}

TEST(ReadArchive, ReadsFromTheBeginning) {
  const std::string archive = RawZip().add("a", "x").bytes();
  const UniqueFd fd = sealed_memory_file("archive", std::as_bytes(std::span(archive)));
  EXPECT_EQ(read_archive(fd.get()), archive);
  EXPECT_EQ(read_archive(fd.get()), archive);
}

}  // namespace
}  // namespace caisson::skill
