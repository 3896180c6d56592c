#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "skill/zip_directory.h"

namespace caisson::skill {

// Decompresses one file of an archive and gives it to `use` piece by piece. Throws validation_error
// as soon as there is more than its entry says, and at the end when there is less or the checksum
// is wrong.
void unpack(const ZipEntry& entry, const std::function<void(std::string_view)>& use);

// The bytes of an archive in a file, from its beginning; of one that is too large only so many that
// it is refused as such.
std::string read_archive(int fd);

}  // namespace caisson::skill
