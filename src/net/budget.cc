#include "net/budget.h"

#include <malloc.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace caisson::net {

namespace {

constexpr auto kPatience = std::chrono::seconds(2);
constexpr std::uint64_t kSlowBytes = 64u << 10;  // a second
constexpr std::size_t kWorthTrimming = 8u << 20;

}  // namespace

std::shared_ptr<Share> Budget::make_share() {
  return std::make_shared<Share>(shared_from_this());
}

BudgetStatus Budget::status() const {
  return {.limit = limit_,
          .incoming = incoming_,
          .outgoing = outgoing_,
          .peak = peak_,
          .refused = refused_,
          .evicted = evicted_};
}

std::size_t Budget::left(Flow flow) const {
  const std::size_t all = incoming_ + outgoing_;
  const std::size_t own = flow == Flow::incoming ? incoming_ : outgoing_;
  const std::size_t most = limit_ - limit_ / 4;
  return std::min(limit_ - std::min(limit_, all), most - std::min(most, own));
}

void Budget::evict_slow(Deadline now) {
  std::vector<std::function<void()>> evictions;
  for (Share* share : waiting_) {
    if (!share->slow(now)) continue;
    share->abandon();
    evictions.push_back(share->evict_);
  }
  evicted_ += evictions.size();
  for (const auto& evict : evictions) evict();
}

void Budget::evict_largest(const Share& starved, Deadline now) {
  Share* largest = nullptr;
  for (Share* share : unfinished_) {
    if (share->abandoned_ || share == &starved || now - share->grown_at_ < kPatience) continue;
    if (share->incoming_ < starved.incoming_) continue;
    if (largest == nullptr || share->incoming_ > largest->incoming_) largest = share;
  }
  if (largest == nullptr) return;
  largest->abandon();
  ++evicted_;
  const std::function<void()> refuse = largest->refuse_;
  refuse();
}

// The allocator keeps what is freed for a program that will want it again; a burst of large
// messages is no such program.
void Budget::trim() {
  const std::size_t all = incoming_ + outgoing_;
  if (high_ < kWorthTrimming || all > high_ / 4) return;
  high_ = all;
  ::malloc_trim(0);
}

Share::~Share() {
  budget_->waiting_.erase(this);
  budget_->unfinished_.erase(this);
}

void Share::set_known(bool known) {
  if (known == known_) return;
  known_ = known;
  if (known) {
    budget_->of_strangers_ -= held();
  } else {
    budget_->of_strangers_ += held();
  }
}

bool Share::fits(Flow flow, std::size_t bytes) const {
  const std::size_t left = budget_->left(flow);
  if (abandoned_ || bytes > left || held() + bytes > left - bytes) return false;
  return known_ || (held() + bytes <= Budget::kStranger &&
                    budget_->of_strangers_ + bytes <= budget_->limit_ / 8);
}

bool Share::take(Flow flow, std::size_t bytes) {
  bool room = fits(flow, bytes);
  if (!room && flow == Flow::outgoing) {
    budget_->evict_slow(Clock::now());
    room = fits(flow, bytes);
  }
  if (!room) {
    ++budget_->refused_;
    return false;
  }
  add(flow, bytes);
  return true;
}

void Share::add(Flow flow, std::size_t bytes) {
  of(flow) += bytes;
  if (!known_) budget_->of_strangers_ += bytes;
  if (abandoned_) return;
  if (flow == Flow::incoming) grown_at_ = Clock::now();
  budget_->used(flow) += bytes;
  const std::size_t all = budget_->incoming_ + budget_->outgoing_;
  budget_->high_ = std::max(budget_->high_, all);
  budget_->peak_ = std::max(budget_->peak_, all);
}

void Share::give_back(Flow flow, std::size_t bytes) {
  of(flow) -= bytes;
  if (!known_) budget_->of_strangers_ -= bytes;
  if (!abandoned_) budget_->used(flow) -= bytes;
}

// Its connection ends in one of the next turns of the loop; others have the room at once.
void Share::abandon() {
  abandoned_ = true;
  budget_->incoming_ -= incoming_;
  budget_->outgoing_ -= outgoing_;
}

bool Share::slow(Deadline now) const {
  const auto waited = now - waiting_since_;
  if (abandoned_ || waited < kPatience) return false;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(waited).count();
  return taken_ < kSlowBytes * static_cast<std::uint64_t>(seconds);
}

Share::Waiting::Waiting(Share* share, std::function<void()> evict, Deadline since) : share_(share) {
  if (share_ == nullptr) return;
  share_->waiting_since_ = since;
  share_->taken_ = 0;
  share_->evict_ = std::move(evict);
  share_->budget_->waiting_.insert(share_);
}

Share::Waiting::~Waiting() {
  if (share_ == nullptr) return;
  share_->budget_->waiting_.erase(share_);
  share_->evict_ = nullptr;
}

void Share::Waiting::taken(std::size_t bytes) {
  if (share_ != nullptr) share_->taken_ += bytes;
}

Share::Unfinished::Unfinished(Share* share, std::function<void()> refuse) : share_(share) {
  if (share_ == nullptr) return;
  share_->refuse_ = std::move(refuse);
  share_->budget_->unfinished_.insert(share_);
}

Share::Unfinished::~Unfinished() {
  if (share_ == nullptr) return;
  share_->budget_->unfinished_.erase(share_);
  share_->refuse_ = nullptr;
}

void Share::Unfinished::starved(Deadline now) {
  if (share_ == nullptr || share_->abandoned_ || now - share_->grown_at_ < kPatience) return;
  share_->budget_->evict_largest(*share_, now);
}

Charge::Charge(Charge&& other) noexcept
    : share_(std::move(other.share_)), flow_(other.flow_), bytes_(std::exchange(other.bytes_, 0)) {}

Charge& Charge::operator=(Charge&& other) noexcept {
  if (this == &other) return *this;
  set(0);
  share_ = std::move(other.share_);
  flow_ = other.flow_;
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

bool Charge::resize(std::size_t bytes) {
  if (share_ && bytes > bytes_ && !share_->take(flow_, bytes - bytes_)) return false;
  if (share_ && bytes < bytes_) share_->give_back(flow_, bytes_ - bytes);
  bytes_ = bytes;
  return true;
}

bool Charge::set(std::size_t bytes) {
  if (!share_ || bytes <= bytes_) return resize(bytes);
  const bool room = share_->fits(flow_, bytes - bytes_);
  share_->add(flow_, bytes - bytes_);
  bytes_ = bytes;
  return room;
}

}  // namespace caisson::net
