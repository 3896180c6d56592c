#pragma once
#include <boost/asio/any_io_executor.hpp>
#include <cstdint>

#include "async/signal.h"
#include "async/task.h"
#include "journal/journal.h"

namespace caisson::journal {

// A journal on an event loop: those who fill it and those who read it hear of each other here.
// Lives on the loop's thread and is there for as long as any of them.
class Feed {
 public:
  Feed(const boost::asio::any_io_executor& executor, Journal& journal)
      : journal_(journal), changed_(executor), released_(executor) {}

  Journal& journal() { return journal_; }
  const Journal& journal() const { return journal_; }

  // There is more in the journal, or its end is reached: every follower looks.
  void announce() { changed_.notify(); }
  Task<void> changed() { return changed_.wait(); }

  // As Journal::release_up_to; a pump that was held goes on.
  void release_up_to(std::uint64_t offset) {
    journal_.release_up_to(offset);
    released_.notify();
  }
  Task<void> released() { return released_.wait(); }
  // As Journal::hold_from.
  void hold_from(std::uint64_t offset, std::uint64_t at_least = 0) {
    journal_.hold_from(offset, at_least);
    released_.notify();
  }

 private:
  Journal& journal_;
  Signal changed_;
  Signal released_;
};

}  // namespace caisson::journal
