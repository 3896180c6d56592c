#include "model/isolation.h"

#include <gmock/gmock.h>

#include <set>

#include "model/refusal_for_test.h"

namespace caisson::model {
namespace {

using testing::ElementsAre;

TEST(Layer, IsFoundByItsName) {
  std::set<std::string_view> names;
  for (const Layer layer : all_layers()) {
    EXPECT_EQ(layer_from_string(to_string(layer)), layer);
    names.insert(to_string(layer));
  }
  EXPECT_EQ(names.size(), all_layers().size());
  EXPECT_EQ(names.count("unknown"), 0u);
  EXPECT_EQ(layer_from_string("Seccomp"), std::nullopt);
  EXPECT_EQ(layer_from_string(""), std::nullopt);
}

TEST(IsolationReport, ShowsWhatIsNotFullyInForce) {
  const LayerReport good{Layer::seccomp, LayerState::in_force, "allow-list", ""};
  const LayerReport weak{Layer::network, LayerState::weaker, "shared", "mount nsfs"};
  const LayerReport gone{Layer::cpu_limit, LayerState::missing, "no controller", "enable cpu"};
  const IsolationReport report{{good, weak, gone}};
  EXPECT_THAT(report.weaker(), ElementsAre(weak, gone));
  EXPECT_EQ(*report.find(Layer::network), weak);
  EXPECT_EQ(report.find(Layer::memory_limit), nullptr);
}

TEST(IsolationReport, ShowsTheMendingStepOnlyWhereThereIsOne) {
  const IsolationReport report{{{Layer::seccomp, LayerState::in_force, "allow-list", ""},
                                {Layer::cpu_limit, LayerState::missing, "none", "enable cpu"}}};
  EXPECT_EQ(to_json(report),
            parse_json(R"([{"layer": "seccomp", "state": "in_force", "detail": "allow-list"},
    {"layer": "cpu_limit", "state": "missing", "detail": "none", "fix": "enable cpu",
     "mend": "enable cpu"}])"));
}

}  // namespace
}  // namespace caisson::model
