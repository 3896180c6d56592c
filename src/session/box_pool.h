#pragma once
#include <boost/asio/any_io_executor.hpp>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>

#include "async/task.h"
#include "async/task_group.h"
#include "backend/backend.h"
#include "model/box_settings.h"
#include "session/shell.h"

namespace caisson::session {

// A box, and perhaps a shell that waits in it.
struct ReadyBox {
  std::unique_ptr<backend::Box> box;
  WaitingShell shell;
};

// Keeps a box ready of each kind that was asked for lately, so that a new session is an acquire. A
// box is used once. Boxes with directories of the host in them are made when they are asked for.
// What a caller sees does not depend on whether there was one.
class BoxPool {
 public:
  // `kinds`: how many kinds of boxes are kept, one box each; 0 keeps none.
  BoxPool(const boost::asio::any_io_executor& executor, backend::Backend& backend,
          std::size_t kinds);

  // Makes one of the default kind, in the background.
  void warm_up();

  Task<ReadyBox> acquire(model::BoxSettings settings);

  Task<void> stop();

  std::size_t ready() const;
  std::uint64_t hits() const { return hits_; }
  std::uint64_t misses() const { return misses_; }

 private:
  struct Kind {
    model::BoxSettings shape;
    ReadyBox ready;
    bool being_made = false;
  };

  Kind& kind_of(const model::BoxSettings& shape);
  void refill(const model::BoxSettings& shape);
  Task<void> make_later(model::BoxSettings shape);
  Task<void> make(model::BoxSettings shape);

  backend::Backend& backend_;
  const std::size_t kinds_;
  boost::asio::any_io_executor executor_;
  std::list<Kind> shelves_;  // most recently asked for first
  std::uint64_t hits_ = 0;
  std::uint64_t misses_ = 0;
  bool stopping_ = false;
  TaskGroup tasks_;
};

// What decides how a box is made, with everything else at its default; nullopt for a box that shows
// directories of the host.
std::optional<model::BoxSettings> shape_of(const model::BoxSettings& settings);

}  // namespace caisson::session
