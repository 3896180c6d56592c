// How boxes that an owner before us made are taken over.
#include <boost/asio/steady_timer.hpp>
#include <utility>

#include "async/blocking.h"
#include "backend/guest_box.h"
#include "backend/native/native_impl.h"
#include "base/error.h"
#include "base/random.h"
#include "base/str.h"
#include "base/text.h"

namespace caisson::backend::native {

namespace {

// Of a box that lives: letting go of it removes nothing.
using FoundCgroup = std::shared_ptr<BoxCgroup>;

FoundCgroup hold(BoxCgroup found) {
  const auto let_go = [](BoxCgroup* cgroup) {
    cgroup->abandon();
    delete cgroup;
  };
  return {new BoxCgroup(std::move(found)), let_go};
}

}  // namespace

// Groups without an announced box are of those that had no owner's word yet when it died, or no
// guest any more.
Task<void> Native::Impl::begin_adoption(std::vector<std::string> descriptions) {
  const std::shared_ptr<Impl> self = shared_from_this();
  CgroupOwner::Found others = cgroups->find_boxes();
  for (const auto& [name, groups] : others) skip_name(name);
  std::set<std::string> living;
  for (const std::string& description : descriptions) {
    try {
      const NativeDescription told = read_description(description);
      skip_name(told.name);
      Announced box{.slot = slots->reserve(told.slot), .groups = {}};
      if (auto found = others.extract(told.name)) box.groups = std::move(found.mapped());
      living.insert(told.name);
      announced.insert_or_assign(told.name, std::move(box));
    } catch (const Error&) {
      // adopt() says what is wrong with it.
    }
  }
  auto remove = [this, others = std::move(others), living = std::move(living)] {
    if (!others.empty()) cgroups->remove_boxes(others);
    mounts->remove_copies_if([&](const std::string& name) { return !living.contains(name); });
  };
  co_await run_blocking(workers(), std::move(remove));
}

// Names are not used twice while anything may carry them.
void Native::Impl::skip_name(const std::string& name) {
  const auto number = parse_integer(name.substr(name.rfind('-') + 1));
  if (number) next_box = std::max(next_box, static_cast<std::uint64_t>(*number) + 1);
}

Task<std::optional<BoxCgroup>> Native::Impl::find_cgroup(std::string name, CgroupLimits limits,
                                                         std::set<std::uint64_t> groups) {
  std::exception_ptr failure;
  try {
    auto find = [this, name, limits, groups] { return hold(cgroups->adopt(name, limits, groups)); };
    const FoundCgroup found = co_await run_blocking(workers(), std::move(find));
    co_return std::move(*found);
  } catch (const Error&) {
    failure = std::current_exception();
  }
  // Parts of it may be there.
  auto remove = [this, name, groups] { cgroups->remove_boxes({{name, groups}}); };
  co_await run_blocking(workers(), std::move(remove));
  std::rethrow_exception(failure);
}

Task<std::unique_ptr<Box>> Native::Impl::adopt(model::BoxSettings settings, std::string description,
                                               std::vector<UniqueFd> fds) {
  const std::shared_ptr<Impl> self = shared_from_this();
  const NativeDescription told = read_description(description);
  if (fds.size() != 2 && fds.size() != 3) {
    throw Error(ErrorCode::protocol_error, "a box was handed over without its descriptors");
  }
  auto known = announced.extract(told.name);
  if (!known) {
    throw Error(ErrorCode::internal_error, str("box ", told.name, " was not announced"));
  }
  Announced box = std::move(known.mapped());
  std::optional<BoxCgroup> cgroup;
  if (told.has_cgroup) {
    cgroup = co_await find_cgroup(told.name, limits_of(settings), std::move(box.groups));
  }
  const auto resources = std::make_shared<NativeResources>(
      executor, told.name, std::move(box.slot), std::move(cgroup), pending_cgroups, mounts);
  resources->adopt(ChildProcess(told.pid, std::move(fds[1])));
  if (fds.size() == 3) resources->keep_mount_namespace(std::move(fds[2]));
  expect_box();  // not before anything is waited for: all boxes are taken over at the same time
  const auto channel = std::make_shared<GuestChannel>(executor, std::move(fds[0]));
  note({channel, resources});  // who abandons us meanwhile abandons the box as well
  std::exception_ptr failure;
  wire::Processes processes;
  try {
    const LateGuest late(channel, executor);
    processes = co_await channel->resume(random_number());
  } catch (const Error&) {
    failure = std::current_exception();
  } catch (...) {
    resources->abandon();  // it is the next owner's who takes it over
    throw;
  }
  if (failure) {
    resources->kill();
    channel->close();
    dying.push_back(resources);
    std::rethrow_exception(failure);
  }
  if (settings.network == model::NetworkMode::on && !inherited_network) {
    inherited_network = Network::probe();
  }
  const GuestBox::Identity identity{kPayloadId, kPayloadId};
  co_return std::make_unique<GuestBox>(str("native-", owner.number(), "-", told.name), channel,
                                       identity, expect(settings, inherited_network), resources,
                                       processes);
}

}  // namespace caisson::backend::native
