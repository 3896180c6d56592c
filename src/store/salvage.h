#pragma once
#include <filesystem>
#include <string>

#include "store/schema.h"

namespace caisson::store {

// Rows are compared with their checksums. Throws DamagedError when one does not match.
void check_rows(const Database& database);

// Puts a new database in the place of a damaged one, with every row that can still be read, and
// keeps the damaged one as `<file>.corrupt-<time>`. On an error, such as a full disk, the damaged
// one is still in its place. Returns what happened, for the log.
std::string replace_damaged(const std::filesystem::path& file, const Schema& schema,
                            const std::string& cause);

}  // namespace caisson::store
