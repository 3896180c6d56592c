// What a registry does with the sessions of a daemon before it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "async/event.h"
#include "base/error.h"
#include "session/kept_session.h"
#include "session/registry.h"
#include "session/scene_for_test.h"

namespace caisson::session {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Its boxes answer when the test says so.
class SlowToAdopt final : public backend::Backend {
 public:
  SlowToAdopt(boost::asio::any_io_executor executor, backend::Backend& real)
      : executor_(std::move(executor)), real_(real) {}

  void hold(const std::string& box) { held_.emplace(box, executor_); }
  void release(const std::string& box) { held_.at(box).set(); }
  void lose(const std::string& box) { lost_.insert(box); }
  std::vector<std::string> announced;

  std::string_view name() const override { return real_.name(); }
  Task<backend::BackendStatus> status() override { return real_.status(); }
  Task<std::unique_ptr<backend::Box>> create(model::BoxSettings settings) override {
    return real_.create(std::move(settings));
  }
  Task<void> begin_adoption(std::vector<std::string> descriptions) override {
    announced = std::move(descriptions);
    co_return;
  }
  Task<std::unique_ptr<backend::Box>> adopt(model::BoxSettings settings, std::string description,
                                            std::vector<UniqueFd>) override {
    if (const auto held = held_.find(description); held != held_.end()) {
      co_await held->second.wait();
    }
    if (lost_.contains(description)) throw Error(ErrorCode::box_lost, "it has ended");
    co_return co_await real_.create(std::move(settings));
  }
  void set_mount_rules(MountRulesOf) override {}
  void abandon() override {}
  Task<void> stop() override { return real_.stop(); }

 private:
  boost::asio::any_io_executor executor_;
  backend::Backend& real_;
  std::map<std::string, Event> held_;
  std::set<std::string> lost_;
};

class NotingKeeper final : public backend::Keeper {
 public:
  void keep(const std::string&, const std::string&, std::vector<int>) override {}
  void drop(const std::string& name) override { dropped.push_back(name); }
  void on_loss(std::function<void()>) override {}
  std::vector<std::string> dropped;
};

class RegistryKeptTest : public SessionScene {
 protected:
  void TearDown() override {
    if (!registry_->stopping()) await(registry_->stop());
    await(backend_.stop());
  }

  static backend::KeptEntries kept(const std::vector<std::string>& ids) {
    backend::KeptEntries entries;
    for (const std::string& id : ids) {
      KeptSession session;
      session.session_id = id;
      session.box = "box of " + id;
      session.last_used = Clock::now();
      entries[kept_session_name(id)] = {.data = to_text(session), .fds = {}};
    }
    return entries;
  }

  void start(const std::vector<std::string>& ids) {
    registry_ = std::make_unique<Registry>(io_.get_executor(), slow_, nullptr, settings_, &keeper_);
    await(registry_->start(kept(ids)));
  }

  Settings settings_ = plain();
  SlowToAdopt slow_{io_.get_executor(), backend_};
  NotingKeeper keeper_;
  std::unique_ptr<Registry> registry_;
};

TEST_F(RegistryKeptTest, ASessionThatIsNotBackIsWaitedForByItsCallersAndNobodyElse) {
  slow_.hold("box of stopped");
  start({"other", "stopped"});
  EXPECT_THAT(slow_.announced, ElementsAre("box of other", "box of stopped"));
  auto waiting = begin(registry_->exec(command("stopped", "echo back")));
  auto removal = begin(registry_->wait_for("stopped"));
  EXPECT_EQ(await(registry_->exec(command("other", "echo here"))).out, "here");
  EXPECT_EQ(await(registry_->exec(command("new", "echo new"))).out, "new");
  EXPECT_EQ(registry_->status().returning, 1u);
  EXPECT_EQ(registry_->status().sessions, 2u);
  EXPECT_TRUE(registry_->contains("stopped"));
  EXPECT_TRUE(registry_->get("stopped").returning);
  EXPECT_EQ(registry_->list().size(), 3u);
  EXPECT_FALSE(waiting->done);
  EXPECT_FALSE(removal->done);
  slow_.release("box of stopped");
  EXPECT_EQ(end(waiting).value.value().out, "back");
  end(removal);
  EXPECT_EQ(registry_->status().returning, 0u);
  EXPECT_FALSE(registry_->get("stopped").returning);
}

TEST_F(RegistryKeptTest, SessionsThatMayComeBackCountAsTaken) {
  settings_.max_sessions = 2;
  slow_.hold("box of a");
  start({"a"});
  await(registry_->create(request_of("b")));
  EXPECT_EQ(end(begin(registry_->create(request_of("c")))).code, ErrorCode::capacity_reached);
  slow_.release("box of a");
  await(registry_->wait_for("a"));
}

TEST_F(RegistryKeptTest, OneThatIsLostGivesItsNameBack) {
  slow_.hold("box of a");
  slow_.lose("box of a");
  start({"a"});
  std::vector<std::string> lost;
  registry_->on_return([&](const std::string& id, const std::shared_ptr<Session>& session) {
    if (!session) lost.push_back(id);
  });
  auto waiting = begin(registry_->exec(command("a", "echo anew")));
  slow_.release("box of a");
  EXPECT_EQ(end(waiting).value.value().out, "anew");
  EXPECT_THAT(lost, ElementsAre("a"));
  EXPECT_THAT(keeper_.dropped, ElementsAre("session/a"));
}

TEST_F(RegistryKeptTest, OneThatIsNotBackWhenWeGoStaysWithTheKeeper) {
  slow_.hold("box of a");
  start({"a"});
  await(registry_->abandon());
  EXPECT_THAT(keeper_.dropped, IsEmpty());
}

}  // namespace
}  // namespace caisson::session
