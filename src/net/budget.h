#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <utility>

#include "base/clock.h"

namespace caisson::net {

class Share;

// Which way what is kept is going.
enum class Flow {
  incoming,  // until its handler is done with it: heads, bodies, messages
  outgoing,  // until the peer has taken it
};

struct BudgetStatus {
  std::size_t limit = 0;
  std::size_t incoming = 0;
  std::size_t outgoing = 0;
  std::size_t peak = 0;       // of both together, since the start
  std::uint64_t refused = 0;  // since the start: that there was no room for
  std::uint64_t evicted = 0;  // since the start: peers that took their answers too slowly
};

// The memory in which everything is kept that comes from peers or goes to them: one limit for all.
// It is handed out by these rules:
//
// - One connection holds at most as much as is left for the others. However many of them take all
//   they can get, there is room for one more.
// - Neither flow gets the last quarter: answers that nobody takes leave room for requests, and
//   unfinished requests for answers.
// - A connection of nobody known holds at most `stranger`, and all of them an eighth.
// - When an answer finds no room, those who take theirs slowly lose their connections first.
// - When the rest of a message has waited for room, whoever holds most of an unfinished one of
//   which nothing came meanwhile loses it: small messages get through between large ones.
//
// Lives on one event loop thread, and as long as any share of it.
class Budget : public std::enable_shared_from_this<Budget> {
 public:
  static constexpr std::size_t kDefaultLimit = 256u << 20;
  static constexpr std::size_t kStranger = 64u << 10;

  explicit Budget(std::size_t limit = kDefaultLimit) : limit_(limit) {}
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  // Of one connection. At first it is a stranger's.
  std::shared_ptr<Share> make_share();

  BudgetStatus status() const;

  // To be called every now and then: gives memory back to the system when much has been released.
  void trim();

 private:
  friend class Share;

  std::size_t left(Flow flow) const;
  std::size_t& used(Flow flow) { return flow == Flow::incoming ? incoming_ : outgoing_; }
  void evict_slow(Deadline now);
  void evict_largest(const Share& starved, Deadline now);

  std::size_t limit_;
  std::size_t incoming_ = 0;
  std::size_t outgoing_ = 0;
  std::size_t of_strangers_ = 0;
  std::size_t peak_ = 0;
  std::size_t high_ = 0;  // the same, since memory was given back
  std::uint64_t refused_ = 0;
  std::uint64_t evicted_ = 0;
  std::set<Share*> waiting_;     // whose peers have not taken what was written
  std::set<Share*> unfinished_;  // whose peers have not sent the whole of a message
};

// What one connection holds of a budget.
class Share {
 public:
  explicit Share(std::shared_ptr<Budget> budget) : budget_(std::move(budget)) {}
  Share(const Share&) = delete;
  Share& operator=(const Share&) = delete;
  ~Share();

  void set_known(bool known);
  std::size_t held() const { return incoming_ + outgoing_; }

  // While it lives, bytes wait for the peer to take them. A peer that takes less than 64 KiB a
  // second, after two seconds, is slow: `evict` is called when others need the room.
  class Waiting {
   public:
    Waiting(Share* share, std::function<void()> evict, Deadline since = Clock::now());
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;
    ~Waiting();
    void taken(std::size_t bytes);

   private:
    Share* share_;
  };

  // While it lives, a message is not whole. `refuse` is called when others need the room that its
  // beginning has.
  class Unfinished {
   public:
    Unfinished(Share* share, std::function<void()> refuse);
    Unfinished(const Unfinished&) = delete;
    Unfinished& operator=(const Unfinished&) = delete;
    ~Unfinished();
    // To be called every now and then while there is no room for the rest.
    void starved(Deadline now);

   private:
    Share* share_;
  };

 private:
  friend class Budget;
  friend class Charge;

  bool fits(Flow flow, std::size_t bytes) const;
  bool take(Flow flow, std::size_t bytes);
  void add(Flow flow, std::size_t bytes);
  void give_back(Flow flow, std::size_t bytes);
  bool slow(Deadline now) const;
  void abandon();
  std::size_t& of(Flow flow) { return flow == Flow::incoming ? incoming_ : outgoing_; }

  std::shared_ptr<Budget> budget_;
  std::size_t incoming_ = 0;
  std::size_t outgoing_ = 0;
  bool known_ = false;
  bool abandoned_ = false;  // evicted: what it holds is as good as given back
  std::function<void()> evict_;
  std::function<void()> refuse_;
  Deadline grown_at_{};  // incoming
  Deadline waiting_since_{};
  std::uint64_t taken_ = 0;
};

// So many bytes of a share, for as long as it lives. One without a share counts nothing and always
// has room: a client's.
class Charge {
 public:
  Charge() = default;
  explicit Charge(std::shared_ptr<Share> share, Flow flow = Flow::incoming)
      : share_(std::move(share)), flow_(flow) {}
  Charge(Charge&& other) noexcept;
  Charge& operator=(Charge&& other) noexcept;
  ~Charge() { set(0); }

  std::size_t bytes() const { return bytes_; }
  // False, and nothing changes: there is no room. Less always fits.
  [[nodiscard]] bool resize(std::size_t bytes);
  // For what is there already. False: it should not have been.
  bool set(std::size_t bytes);

 private:
  std::shared_ptr<Share> share_;
  Flow flow_ = Flow::incoming;
  std::size_t bytes_ = 0;
};

}  // namespace caisson::net
