#pragma once
#include <string>
#include <string_view>

#include "base/unique_fd.h"

// Files of ours that come out of a box. The box chooses content and names, and may change what is
// in a directory it shares with us while we write: nothing is reached by following what it left.
namespace caisson::cli {

// Whether a name is that of an entry of a directory and nothing else: no "/", no "..".
bool is_plain_name(std::string_view name);

// The directory of that name below `parent`, made if it is missing. A link is refused. `shown` is
// how errors call it.
UniqueFd make_directory(int parent, const std::string& name, const std::string& shown);

// A file that appears as a whole, in the place of a former one, when it is committed; one that is
// dropped leaves nothing. Until then it has no name where the file system can do that. Refuses to
// take the place of anything but a regular file.
class NewFile {
 public:
  // `directory` is borrowed. Permissions are those of every new file, and executable or not.
  NewFile(int directory, std::string name, std::string shown, bool executable);
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile();

  void write(std::string_view bytes);
  void commit();

 private:
  void give_name();

  int directory_;
  std::string name_;
  std::string shown_;
  std::string temporary_;  // empty while it has no name
  UniqueFd file_;
};

}  // namespace caisson::cli
