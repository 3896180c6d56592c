#include "skill/discovery.h"

#include <fcntl.h>

#include <algorithm>
#include <deque>

#include "base/beneath.h"
#include "base/directory.h"
#include "base/error.h"
#include "base/exhaustion.h"
#include "base/unique_fd.h"
#include "model/object_reader.h"
#include "skill/limits.h"
#include "skill/package.h"

namespace caisson::skill {

namespace {

struct Place {
  std::string path;
  unsigned depth;
};

class Discovery {
 public:
  Discovery(int start, unsigned depth, const std::function<bool(std::string_view)>& skip)
      : start_(start), depth_(depth), skip_(skip) {}

  std::vector<FoundPackage> run() {
    queue_.push_back({"", 0});
    while (!queue_.empty()) {
      const Place place = std::move(queue_.front());
      queue_.pop_front();
      look_at(place);
    }
    return std::move(found_);
  }

 private:
  void look_at(const Place& place) {
    const UniqueFd directory =
        open_beneath(start_, place.path, O_RDONLY | O_DIRECTORY, Links::refuse);
    if (!directory) return;
    if (const auto entry_file = find_entry_file(directory.get())) {
      if (found_.size() == kMaxPackages) {
        model::refuse("Skill discovery exceeded the configured package limit");
      }
      found_.push_back({place.path, *entry_file});
    } else if (place.depth < depth_) {
      enqueue_directories(directory.get(), place);
    }
  }

  void enqueue_directories(int directory, const Place& place) {
    std::vector<std::string> names;
    try {
      for_each_entry(directory, place.path, [&](const dirent& entry) {
        if (++scanned_ > kMaxScannedEntries) {
          model::refuse("Skill discovery exceeded the configured entry limit");
        }
        // What turns out to be no directory is not opened as one.
        const bool candidate = entry.d_type == DT_DIR || entry.d_type == DT_UNKNOWN;
        const bool skipped = place.depth == 0 && skip_ && skip_(entry.d_name);
        if (candidate && !skipped) names.emplace_back(entry.d_name);
      });
    } catch (const SystemError& error) {
      if (is_exhaustion(error.error_number())) throw;
      return;
    }
    std::sort(names.begin(), names.end());
    for (const std::string& name : names) {
      queue_.push_back({join_path(place.path, name), place.depth + 1});
    }
  }

  int start_;
  unsigned depth_;
  const std::function<bool(std::string_view)>& skip_;
  std::size_t scanned_ = 0;
  std::deque<Place> queue_;
  std::vector<FoundPackage> found_;
};

}  // namespace

std::vector<FoundPackage> discover(int start, unsigned depth,
                                   const std::function<bool(std::string_view)>& skip) {
  return Discovery(start, depth, skip).run();
}

}  // namespace caisson::skill
