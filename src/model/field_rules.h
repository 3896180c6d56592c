#pragma once
#include <map>
#include <string>
#include <string_view>

#include "model/object_reader.h"
#include "model/timestamp.h"

namespace caisson::model {

// Rules that several types share. `path` names the enclosing object; it is empty at the root, where
// the sentences come out exactly as LangBot's models word them.

// A path inside a box: trimmed, absolute ("<name> must be an absolute path inside the sandbox"),
// normal.
std::string box_path(std::string_view text, std::string_view name, std::string_view path = {});

// A path on the host, POSIX or Windows: trimmed, absolute; POSIX paths are made normal.
std::string host_path(std::string_view text, std::string_view path = {},
                      std::string_view name = "host_path");

// A name that is kept and shown. What comes as JSON is UTF-8; names also come by other ways.
void check_text(std::string_view text, std::string_view name);

// Refuses names that cannot be told from their value in "NAME=value".
void check_environment(const std::map<std::string, std::string>& env, std::string_view path);

// A field that holds a moment with a zone: "<name> must include a timezone" when it has none.
Timestamp required_timestamp(ObjectReader& reader, std::string_view name);

}  // namespace caisson::model
