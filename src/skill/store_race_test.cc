// Somebody in a box swaps what is in its package for symlinks while the store works there.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <thread>

#include "base/error.h"
#include "skill/scene_for_test.h"

namespace caisson::skill {
namespace {

constexpr int kRounds = 150;
const std::string kSecret = "what nobody in a box may see";

// Exchanges two entries of a directory without end, until it is dropped.
class Swapper {
 public:
  Swapper(const std::string& directory, const std::string& a, const std::string& b)
      : directory_(open_file(directory, O_RDONLY | O_DIRECTORY)), thread_([this, a, b] {
          while (!stop_) {
            ::renameat2(directory_.get(), a.c_str(), directory_.get(), b.c_str(), RENAME_EXCHANGE);
          }
        }) {}
  Swapper(const Swapper&) = delete;
  Swapper& operator=(const Swapper&) = delete;
  ~Swapper() {
    stop_ = true;
    thread_.join();
  }

 private:
  UniqueFd directory_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

class Race : public testing::Test {
 protected:
  Race() {
    scene_.put("skills/x/SKILL.md", entry_text("x"));
    scene_.put("skills/x/d/file", "inside");
    scene_.put("outside/file", kSecret);
    scene_.link("../../outside", "skills/x/link");
  }

  // Runs `action` while the directory of a package and a link to another place change places.
  // Anything but its success has to be a refusal.
  template <typename Action>
  void race(const Action& action) const {
    const Swapper swapper(scene_.root() + "/x", "d", "link");
    for (int round = 0; round < kRounds; ++round) {
      try {
        action(round);
      } catch (const Error&) {
        continue;
      }
    }
  }

  Scene scene_;
};

TEST_F(Race, ReadsNothingOutsideOfThePackage) {
  const Store store = scene_.store();
  race([&](int) { EXPECT_EQ(store.read_file("x", "d/file").content, "inside"); });
  race([&](int) {
    for (const FileEntry& entry : store.list_files("x", {.path = "d"}).entries) {
      EXPECT_NE(entry.size, kSecret.size());
    }
  });
}

TEST_F(Race, WritesNothingOutsideOfThePackage) {
  const Store store = scene_.store();
  race([&](int round) {
    store.write_file("x", "d/file", std::to_string(round));
    store.write_file("x", "d/new" + std::to_string(round % 3) + "/file", "x");
  });
  EXPECT_EQ(scene_.content("outside/file"), kSecret);
  EXPECT_EQ(scene_.tree("outside"), std::set<std::string>{"file"});
}

TEST_F(Race, CopiesNothingFromOutsideOfTheWorkspace) {
  scene_.put("workspace/p/SKILL.md", entry_text("p"));
  scene_.put("workspace/p/d/file", "inside");
  scene_.link("../../outside", "workspace/link");
  const Store store = scene_.store();
  const boost::json::object data{{"name", "n"}, {"package_root", scene_.workspace() + "/p"}};
  const UniqueFd package = open_file(scene_.workspace() + "/p", O_RDONLY | O_DIRECTORY);
  const UniqueFd workspace = open_file(scene_.workspace(), O_RDONLY | O_DIRECTORY);
  std::atomic<bool> stop = false;
  std::thread swapper([&] {
    while (!stop) {
      ::renameat2(package.get(), "d", workspace.get(), "link", RENAME_EXCHANGE);
    }
  });
  for (int round = 0; round < kRounds; ++round) {
    try {
      store.create(data);
      EXPECT_EQ(scene_.content("skills/n/d/file"), "inside");
      store.remove("n");
    } catch (const Error&) {
      EXPECT_FALSE(scene_.exists("skills/n"));
    }
  }
  stop = true;
  swapper.join();
}

TEST_F(Race, RemovesNothingOutsideOfTheStore) {
  const Store store = scene_.store();
  for (int round = 0; round < 40; ++round) {
    scene_.put("skills/x/SKILL.md", entry_text("x"));
    scene_.put("skills/x/d/file", "inside");
    if (!scene_.exists("skills/x/link")) scene_.link("../../outside", "skills/x/link");
    const Swapper swapper(scene_.root() + "/x", "d", "link");
    store.remove("x");
    EXPECT_FALSE(scene_.exists("skills/x"));
  }
  EXPECT_EQ(scene_.content("outside/file"), kSecret);
}

}  // namespace
}  // namespace caisson::skill
