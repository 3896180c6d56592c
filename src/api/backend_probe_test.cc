#include "api/backend_probe.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <exception>
#include <vector>

#include "async/event.h"
#include "base/error.h"

namespace caisson::api {
namespace {

class BackendProbeTest : public testing::Test {
 protected:
  // Answers once `answer_` has happened.
  BackendProbe probe(std::chrono::seconds good_for) {
    const auto ask = [this]() -> Task<backend::BackendStatus> {
      ++asked_;
      co_await answer_.wait();
      if (fails_) throw Error(ErrorCode::internal_error, "no");
      co_return backend::BackendStatus{.available = true, .reason = {}, .isolation = {}};
    };
    return {io_.get_executor(), "some", ask, good_for};
  }

  void begin(BackendProbe& probe) {
    boost::asio::co_spawn(io_, probe.status(),
                          [this](const std::exception_ptr& failure, const auto& status) {
                            ++answered_;
                            if (failure) ++failed_;
                            if (!failure && status.available) ++available_;
                          });
  }

  boost::asio::io_context io_{1};
  Event answer_{io_.get_executor()};
  bool fails_ = false;
  int asked_ = 0;
  int answered_ = 0;
  int failed_ = 0;
  int available_ = 0;
};

TEST_F(BackendProbeTest, AsksOnceHoweverManyWantToKnow) {
  BackendProbe probe = this->probe(std::chrono::hours(1));
  for (int i = 0; i < 50; ++i) begin(probe);
  io_.poll();
  EXPECT_EQ(asked_, 1);
  answer_.set();
  io_.restart();
  io_.run();
  EXPECT_EQ(asked_, 1);
  EXPECT_EQ(available_, 50);
}

TEST_F(BackendProbeTest, AsksAgainWhenItsAnswerIsOld) {
  BackendProbe probe = this->probe(std::chrono::seconds(0));
  answer_.set();
  for (int i = 0; i < 2; ++i) begin(probe);
  io_.run();
  EXPECT_EQ(asked_, 2);
}

TEST_F(BackendProbeTest, KeepsNoFailure) {
  BackendProbe probe = this->probe(std::chrono::hours(1));
  answer_.set();
  fails_ = true;
  begin(probe);
  io_.run();
  EXPECT_EQ(failed_, 1);
  fails_ = false;
  begin(probe);
  io_.restart();
  io_.run();
  EXPECT_EQ(available_, 1);
}

}  // namespace
}  // namespace caisson::api
