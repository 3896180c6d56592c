#include "engine.h"

#include <unistd.h>

#include <cstdlib>
#include <exception>

#include "base/error.h"
#include "base/str.h"
#include "base/text.h"
#include "host_command.h"

namespace caisson::benchmarks {

namespace {

constexpr auto kQuestionTimeout = std::chrono::seconds(5);
constexpr unsigned kEvery = 20;  // an engine takes a hundred times as long as a box

// Asking a daemon whose socket the service manager holds would start it.
bool docker_runs() {
  if (std::getenv("DOCKER_HOST") != nullptr) return true;
  const char* user_directory = std::getenv("XDG_RUNTIME_DIR");
  return ::access("/run/docker.pid", F_OK) == 0 || ::access("/var/run/docker.pid", F_OK) == 0 ||
         (user_directory != nullptr &&
          ::access(str(user_directory, "/docker.pid").c_str(), F_OK) == 0);
}

std::vector<std::string> run_words(const std::string& program, const std::string& image) {
  std::vector<std::string> words{program, "run",       "--rm", "--pull",
                                 "never", "--network", "none", image};
  words.insert(words.end(), trivial_command().begin(), trivial_command().end());
  return words;
}

// The first local image in which the trivial command works.
std::optional<std::string> find_image(const std::string& program, std::string& why) {
  const Captured listed = run_captured({program, "images", "--format", "{{.Repository}}:{{.Tag}}"},
                                       Spawn::posix_spawn, kQuestionTimeout);
  if (listed.timed_out || listed.status != 0) {
    why = listed.timed_out ? "it does not answer" : printable(trim(listed.err));
    return std::nullopt;
  }
  why = "it has no image: pull one, such as debian:bookworm-slim";
  for (const std::string_view image : split(listed.out, '\n')) {
    if (image.empty() || image.find("<none>") != std::string_view::npos) continue;
    const Captured tried = run_captured(run_words(program, std::string(image)), Spawn::posix_spawn,
                                        std::chrono::seconds(20));
    if (!tried.timed_out && tried.status == 0) return std::string(image);
    why = str("no container of ", image,
              " runs: ", tried.timed_out ? "it takes too long" : printable(trim(tried.err)));
  }
  return std::nullopt;
}

}  // namespace

std::optional<Engine> Engine::find(const std::string& program, Report& report) {
  std::string why;
  std::optional<std::string> image;
  try {
    if (!is_installed(program)) {
      why = "it is not installed";
    } else if (program == "docker" && !docker_runs()) {
      why = "its daemon does not run";
    } else {
      image = find_image(program, why);
    }
  } catch (const Error& error) {
    why = error.what();
  }
  if (image) return Engine(program, *image);
  report.note(str(program, " was not measured: ", why));
  return std::nullopt;
}

PeerCommand Engine::run_command() const {
  return {.name = str(program_, " run"), .argv = run_words(program_, image_), .every = kEvery};
}

std::unique_ptr<Engine::Container> Engine::start_container() const {
  const Captured started = run_captured({program_, "run", "--detach", "--rm", "--pull", "never",
                                         "--network", "none", image_, "sleep", "3600"});
  if (started.status != 0) {
    throw Error(ErrorCode::backend_unavailable,
                str(program_, " run: ", printable(trim(started.err))));
  }
  return std::make_unique<Container>(program_, std::string(trim(started.out)));
}

Engine::Container::~Container() {
  try {
    run_captured({program_, "rm", "--force", id_});
  } catch (const std::exception&) {
    // It ends by itself within the hour.
  }
}

PeerCommand Engine::Container::exec_command() const {
  std::vector<std::string> words{program_, "exec", id_};
  words.insert(words.end(), trivial_command().begin(), trivial_command().end());
  return {.name = str(program_, " exec"), .argv = std::move(words), .every = kEvery};
}

std::vector<Engine> find_engines(Report& report) {
  std::vector<Engine> engines;
  for (const char* program : {"docker", "podman"}) {
    if (std::optional<Engine> engine = Engine::find(program, report)) engines.push_back(*engine);
  }
  return engines;
}

}  // namespace caisson::benchmarks
