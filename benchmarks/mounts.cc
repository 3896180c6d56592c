#include <boost/json/serialize.hpp>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "backend/artifact_for_test.h"
#include "base/str.h"
#include "boxes.h"
#include "daemon.h"
#include "measurements.h"
#include "turns.h"

namespace caisson::benchmarks {

namespace {

constexpr char kTarget[] = "/workspace/shown";
constexpr char kSession[] = "living";

// What a living box is shown and no longer shown.
struct Change {
  std::string what;
  Samples show = {};
  Samples hide = {};
};

using Step = std::function<void()>;

Contender coming_and_going(Step show, Step hide, Change& change) {
  return {[show = std::move(show), hide = std::move(hide), &change](bool counts) {
    const double shown = milliseconds_of(show);
    const double hidden = milliseconds_of(hide);
    if (!counts) return;
    change.show.add(shown);
    change.hide.add(hidden);
  }};
}

// By the backend itself.
Contender in_box(Boxes& boxes, backend::Box& box, const model::MountSpec& mount, Change& change) {
  return coming_and_going([&] { boxes.loop().await(box.show(plain_spec(), mount)); },
                          [&] { boxes.loop().await(box.hide(mount)); }, change);
}

// By a daemon.
struct Caller {
  void show(const model::MountSpec& mount) {
    loop.await(ask(*client, "POST", mounts(), boost::json::serialize(model::to_json(mount))));
  }
  void hide(const model::MountSpec& mount) {
    loop.await(ask(*client, "DELETE", str(mounts(), "?path=", mount.mount_path)));
  }
  static std::string mounts() { return str("/v1/sessions/", kSession, "/mounts"); }

  DaemonProcess daemon{false};
  Loop loop = {};
  std::unique_ptr<net::Client> client = daemon.connect(loop);
};

Contender in_session(Caller& caller, const model::MountSpec& mount, Change& change) {
  return coming_and_going([&] { caller.show(mount); }, [&] { caller.hide(mount); }, change);
}

// What it cost to have the directory in a box before boxes could be changed: another one.
Contender new_box(Boxes& boxes, const model::MountSpec& mount, Samples& samples) {
  return {[&](bool counts) {
    model::BoxSettings spec = plain_spec();
    spec.extra_mounts.push_back(mount);
    std::unique_ptr<backend::Box> box;
    const double took = milliseconds_of([&] { box = boxes.create(spec); });
    boxes.destroy(*box);
    if (counts) samples.add(took);
  }};
}

void add_figures(const Change& change, const Samples& created, Report& report) {
  Figure figure{.measurement = "mounts"};
  figure.goal = Goal{Goal::Of::ours, Goal::Bound::at_most, 2};
  figure.peer = Peer{"create a box with a directory", created.summary()};
  figure.name = str("show ", change.what);
  figure.ours = change.show.summary();
  report.figures.push_back(figure);
  figure.name = str("hide ", change.what);
  figure.ours = change.hide.summary();
  report.figures.push_back(figure);
}

}  // namespace

void measure_mounts(const Options& options, Report& report) {
  Boxes boxes;
  Caller caller;
  caller.loop.await(exec_in(*caller.client, kSession));
  const std::filesystem::path& place = caller.daemon.shown();
  const model::MountSpec directory{
      .host_path = place, .mount_path = kTarget, .mode = model::MountMode::ro};
  const model::MountSpec artifact = backend::write_artifact(place, "skill", "A small skill.\n");
  const std::unique_ptr<backend::Box> box = boxes.create();
  Change directories{"a directory in a living box"};
  Change artifacts{"an artifact of one small file in it"};
  Change rest_directories{"a directory in a session, over REST"};
  Change rest_artifacts{"an artifact of one small file in it, over REST"};
  Samples created;
  take_turns("mounts",
             {in_box(boxes, *box, directory, directories), in_box(boxes, *box, artifact, artifacts),
              in_session(caller, directory, rest_directories),
              in_session(caller, artifact, rest_artifacts), new_box(boxes, directory, created)},
             options.quick ? 10 : 300);
  boxes.destroy(*box);
  for (const Change* change : {&directories, &artifacts, &rest_directories, &rest_artifacts}) {
    add_figures(*change, created, report);
  }
  report.note(
      "mounts: an artifact is read, verified and copied when it is shown, and its copy removed "
      "when "
      "it is hidden");
}

}  // namespace caisson::benchmarks
