// What an owner is on this host: a number, control groups, a number for networks, each with a lock
// where it is; and what it does about dead ones.
#include <utility>

#include "backend/native/native_impl.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/str.h"
#include "base/text.h"

namespace caisson::backend::native {

namespace {

constexpr std::chrono::seconds kSweepPause{1};  // while something of dead owners is left

std::optional<unsigned> parse_number(std::string_view text) {
  const auto number = parse_integer(text);
  if (!number || *number < 0 || *number >= Owner::kMaxOwners) return std::nullopt;
  return static_cast<unsigned>(*number);
}

}  // namespace

// A box joins every hierarchy that its owner is in, and each costs an exec some time. One without a
// controller that limits (a hybrid host's unified hierarchy) is not worth it: process 1 ends the
// box.
CgroupHost limiting_only(CgroupHost host) {
  std::erase_if(host.hierarchies, [](const CgroupHierarchy& hierarchy) {
    return !hierarchy.controllers.contains(Controller::memory) &&
           !hierarchy.controllers.contains(Controller::pids) &&
           !hierarchy.controllers.contains(Controller::cpu);
  });
  return host;
}

// The data are the number, and that of the network, whose claim is the last descriptor; without one
// the number alone. An owner that had no lock on its groups left neither.
Inheritance read_inheritance(KeptEntry entry) {
  Inheritance left;
  if (entry.fds.empty()) return left;
  const std::vector<std::string_view> numbers = split(entry.data, ' ');
  left.owner.number = parse_number(numbers.front());
  if (numbers.size() == 2 && entry.fds.size() > 1) {
    if (const auto network = parse_number(numbers.back())) {
      left.network.emplace(*network, std::move(entry.fds.back()));
    }
    entry.fds.pop_back();
  }
  left.owner.lock = std::move(entry.fds.front());
  entry.fds.erase(entry.fds.begin());
  left.groups = std::move(entry.fds);
  return left;
}

void Native::Impl::tell_keeper() {
  const std::span<const int> directories = cgroups->directory_fds();
  std::vector<int> fds(directories.begin(), directories.end());
  if (options.keeper == nullptr) {
    // Boxes end with us: a launcher that sees us dead cleans up.
    fds.push_back(owner.lock());
    const std::string name = str(kOwnerPrefix, owner.number());
    templates.set_cgroups(std::vector<std::string>(directories.size(), name), std::move(fds));
    return;
  }
  // Boxes outlive us: nobody is to clean up when we die, except the owner after us.
  fds.insert(fds.begin(), owner.lock());
  std::string numbers = str(owner.number());
  if (network_claim) {
    fds.push_back(network_claim->fd());
    numbers += str(" ", network_claim->number());
  }
  options.keeper->keep(kKeptName, numbers, std::move(fds));
}

bool Native::Impl::claim_groups(unsigned number) {
  claimed = CgroupClaim::take(group_host, str(number));
  return claimed.has_value();
}

void Native::Impl::settle() {
  sweep();
  const std::string name = str(owner.number());
  const bool takes_over = !claimed;
  if (takes_over) claimed = CgroupClaim::inherit(group_host, name, std::move(inherited.groups));
  cgroups.emplace(group_host, name, std::exchange(claimed, std::nullopt).value());
  network_claim = std::move(inherited.network);
  // The owner before us may have been one that claimed no number for its networks.
  std::set<unsigned> tables;
  if (takes_over && host.privileged && !network_claim && list_nat_tables(tables) == 0 &&
      tables.contains(owner.number())) {
    network_claim = NetworkClaim::take(owner.number());
  }
  tell_keeper();
  if (options.keeper != nullptr) options.keeper->on_loss([this] { tell_keeper(); });
}

// Removes what dead owners left behind, while their numbers cannot be taken. What is not theirs
// alone any more, because something lives in it, waits for another time.
void Native::Impl::sweep() {
  dead_are_left = false;
  next_sweep = Clock::now() + kSweepPause;
  std::set<unsigned> found;
  CgroupOwner::sweep(cgroup_host, [&found](std::string_view name) {
    if (const auto number = parse_number(name)) found.insert(*number);
    return true;  // only looking
  });
  bool any = owner.follows_dead();
  const auto clean = [&](unsigned dead) {
    any = true;
    const bool gone = CgroupOwner::sweep(cgroup_host, [&](std::string_view name) {
                        return name != str(dead);
                      }).empty();
    dead_are_left = dead_are_left || !gone;
    return gone;
  };
  owner.with_dead_owners(clean, found);
  if (!any || !host.privileged) return;
  // Our own number may have been a dead one's; once we use it for networks, our claim protects it.
  const auto is_live = [this](unsigned number) {
    return number != owner.number() && owner.is_live(number);
  };
  dead_are_left = !Network::sweep(is_live).empty() || dead_are_left;
}

void Native::Impl::sweep_again() {
  if (dead_are_left && Clock::now() > next_sweep) sweep();
}

// False when nothing of them is missing.
bool Native::Impl::renew_groups() {
  try {
    if (!cgroups->renew()) return false;
  } catch (const Error& error) {
    log::error("control groups were removed by somebody else and cannot be made again: restart",
               "owner", owner.number(), "error", error.what());
    throw;
  }
  log::error("control groups were removed by somebody else and are made again", "owner",
             owner.number());
  tell_keeper();
  return true;
}

// Our own number where nobody has it: names of one owner are alike then.
void Native::Impl::open_network() {
  const auto is_live = [this](unsigned number) { return owner.is_live(number); };
  if (!network_claim) {
    Network::sweep(is_live);
    network_claim = Network::claim(owner.number(), is_live);
    tell_keeper();
  }
  network.emplace(network_claim->number());
}

}  // namespace caisson::backend::native
