#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "store/database.h"

namespace caisson::store {

// The history of the tables: the SQL of step i brings version i to version i + 1. Steps are added
// and never changed. The version of a file is its user_version.
using Schema = std::vector<std::string>;

// Makes a file with the newest tables and what `fill` writes to them. It is there as a whole or not
// at all, also after a crash, and readable for this user only. Replaces an older file.
void create_database(const std::filesystem::path& file, const Schema& schema,
                     const std::function<void(const Database&)>& fill = {});

// Opens an existing file. One of a newer version is refused and not touched. An older one is copied
// to `<file>.backup-v<version>` and brought up to date; `report` then says so. Throws DamagedError
// when the structure of the file is broken.
Database open_database(const std::filesystem::path& file, const Schema& schema,
                       std::string& report);

// So that a rename or a new name in it survives a power failure.
void sync_directory(const std::filesystem::path& directory);

}  // namespace caisson::store
