#pragma once
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/thread_pool.hpp>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "api/readiness.h"
#include "async/task.h"
#include "async/turns.h"
#include "quota/choose.h"
#include "quota/quota.h"
#include "service/box_configuration.h"

namespace caisson::daemon {

// Binds the directories of admitted workspaces to what they may hold, by whatever driver works
// where they are.
class Storage {
 public:
  // Everything referred to outlives it. Records and images are kept below `state`.
  Storage(const boost::asio::any_io_executor& executor, std::filesystem::path state,
          const service::BoxConfiguration& configuration);

  // Puts in force again what a daemon before us had limited.
  Task<void> recover();

  Task<api::StorageReadiness> readiness();

  // The directory holds at most this from now on. Throws what the driver does, and not_ready when
  // there is none.
  Task<void> limit(std::filesystem::path directory, std::int64_t megabytes);

 private:
  // One object for each kind of driver: they share the records.
  struct Choice {
    std::shared_ptr<quota::Driver> driver;  // null: none works there
    std::string why;
  };
  Task<Choice> choose(std::filesystem::path root);
  quota::Limit limit_of(std::int64_t megabytes) const;

  const std::filesystem::path state_;
  const service::BoxConfiguration& configuration_;
  std::map<std::string, std::shared_ptr<quota::Driver>, std::less<>> drivers_;
  std::map<std::string, quota::Limit> applied_;
  Turns turns_;
  boost::asio::thread_pool pool_{1};
};

}  // namespace caisson::daemon
