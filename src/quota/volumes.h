#pragma once
#include <filesystem>
#include <set>
#include <string>
#include <string_view>

#include "base/unique_fd.h"
#include "quota/quota.h"
#include "quota/record.h"

namespace caisson::quota {

// A file system of its own, not mounted at any path: directory `inside` of it holds the data.
struct Volume {
  UniqueFd mount;
  std::string inside;  // empty: its root
};

// Where the file systems come from that Mounted mounts on directories. Each belongs to a record,
// and is kept under the record's id.
class Volumes {
 public:
  virtual ~Volumes() = default;
  virtual std::string_view name() const = 0;

  // An empty one for the record's limit, a draft: adopt() puts it in the place of the record's.
  virtual Volume make(const Record& record) = 0;
  virtual void adopt(const Record& record) = 0;
  virtual void remove_draft(const Record& record) = 0;

  // Whether there is one to open, mounted or not.
  virtual bool exists(const Record& record) const = 0;
  virtual Volume open(const Record& record) = 0;
  virtual bool is_mounted(const Record& record) const = 0;  // on its directory

  // Gives the mounted one this limit, or answers false when only a new one could have it.
  virtual bool resize(const Record& record, const Limit& limit) = 0;

  // For what replaces it or takes it away: unmounted, and nobody's but the caller's. Throws busy
  // when somebody else has it. One whose data goes with its last mount stays mounted.
  virtual Volume take_off(const Record& record) = 0;

  virtual void remove(const Record& record) = 0;
  // Removes what has no record, and what was never adopted.
  virtual void sweep(const std::set<std::string>& known_ids) = 0;

  // A path that may be used as staging of attach().
  virtual std::filesystem::path staging(const Record& record) const = 0;
};

}  // namespace caisson::quota
