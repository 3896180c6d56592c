// Row I18: a layer that cannot be applied stops the start by name, unless the operator accepted its
// absence; then the box says so.
#include <gmock/gmock.h>

#include <algorithm>

#include "base/error.h"
#include "isolation.h"

namespace caisson::security_test {
namespace {

using ::testing::HasSubstr;

// A box without one of these is none, and every kernel that can make boxes has them: no operator
// can accept their absence.
constexpr model::Layer kIndispensable[] = {
    model::Layer::user_namespace, model::Layer::mount_namespace, model::Layer::pid_namespace,
    model::Layer::ipc_namespace,  model::Layer::uts_namespace,   model::Layer::network,
    model::Layer::capabilities,   model::Layer::bounded_storage, model::Layer::guest_protection,
};

bool is_indispensable(model::Layer layer) {
  return std::find(std::begin(kIndispensable), std::end(kIndispensable), layer) !=
         std::end(kIndispensable);
}

class IsolationFailure : public Isolation {
 protected:
  // A mounted workspace, so that every layer has something to do.
  model::BoxSettings demanding_spec() const {
    model::BoxSettings box_spec = spec();
    box_spec.host_path = workspace_.path().native();
    return box_spec;
  }

  backend::native::Options without(model::Layer layer) const {
    backend::native::Options withheld = options();
    withheld.withhold.insert(layer);
    withheld.allow_missing.erase(layer);
    return withheld;
  }

  void expect_start_refused(backend::native::Options withheld, model::Layer layer) {
    const auto backend = make_backend(std::move(withheld));
    try {
      finish(backend->create(demanding_spec()));
      ADD_FAILURE() << "a box started";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::isolation_unavailable) << error.what();
      EXPECT_THAT(error.what(), HasSubstr(std::string(model::to_string(layer))));
    }
    finish(backend->stop());
  }

  void expect_start_with_report(backend::native::Options accepted, model::Layer layer) {
    const auto backend = make_backend(std::move(accepted));
    try {
      const std::unique_ptr<backend::Box> box = finish(backend->create(demanding_spec()));
      expect_report_without(box->isolation(), layer);
      const backend::RunResult result = run_payload(*box, {"echo", "works"});
      EXPECT_EQ(result.out.data, "works\n") << result.err.data;
      destroy(*box);
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
    finish(backend->stop());
  }

  static void expect_report_without(const model::IsolationReport& isolation, model::Layer layer) {
    const model::LayerReport* report = isolation.find(layer);
    ASSERT_NE(report, nullptr) << "the report does not mention the layer";
    EXPECT_NE(report->state, model::LayerState::in_force);
    EXPECT_FALSE(report->detail.empty());
  }

 private:
  const TemporaryDirectory workspace_{0755};
};

TEST_F(IsolationFailure, I18FailureIsClosed) {
  if (!withheld_by_environment().empty()) GTEST_SKIP() << "CAISSON_TEST_WITHHOLD is set";
  for (const model::Layer layer : model::all_layers()) {
    SCOPED_TRACE(model::to_string(layer));
    expect_start_refused(without(layer), layer);
  }
}

TEST_F(IsolationFailure, I18AnAcceptedAbsenceIsReported) {
  if (!withheld_by_environment().empty()) GTEST_SKIP() << "CAISSON_TEST_WITHHOLD is set";
  for (const model::Layer layer : model::all_layers()) {
    if (is_indispensable(layer)) continue;
    SCOPED_TRACE(model::to_string(layer));
    backend::native::Options accepted = without(layer);
    accepted.allow_missing.insert(layer);
    expect_start_with_report(std::move(accepted), layer);
  }
}

TEST_F(IsolationFailure, I18NobodyCanAcceptTheAbsenceOfABox) {
  for (const model::Layer layer : kIndispensable) {
    SCOPED_TRACE(model::to_string(layer));
    backend::native::Options accepted = without(layer);
    accepted.allow_missing.insert(layer);
    expect_start_refused(std::move(accepted), layer);
  }
}

TEST_F(IsolationFailure, I18AWholeBoxReportsEveryLayerInForce) {
  if (!withheld_by_environment().empty()) GTEST_SKIP() << "CAISSON_TEST_WITHHOLD is set";
  if (!reason_to_skip("kill_pid1").empty()) GTEST_SKIP() << reason_to_skip("kill_pid1");
  const std::unique_ptr<backend::Box> box = create_box(demanding_spec());
  for (const model::Layer layer : model::all_layers()) {
    const model::LayerReport* report = box->isolation().find(layer);
    ASSERT_NE(report, nullptr) << model::to_string(layer);
    EXPECT_EQ(report->state, model::LayerState::in_force)
        << model::to_string(layer) << ": " << report->detail;
  }
  destroy(*box);
}

}  // namespace
}  // namespace caisson::security_test
