#include "langbot.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <boost/json/parse.hpp>
#include <cstdlib>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/str.h"
#include "base/text.h"
#include "engine.h"
#include "host_command.h"

namespace caisson::benchmarks {

namespace {

constexpr const char* kPython = "CAISSON_BENCH_LANGBOT";
// Longer than the scripts themselves wait for anything.
constexpr auto kPatience = std::chrono::seconds(60);

std::vector<std::string> environment() {
  std::vector<std::string> env{"HOME=/tmp"};
  for (const char* name : {"PATH", "DOCKER_HOST", "XDG_RUNTIME_DIR"}) {
    if (const char* value = std::getenv(name)) env.push_back(str(name, "=", value));
  }
  return env;
}

}  // namespace

bool has_langbot() {
  return std::getenv(kPython) != nullptr;
}

std::optional<std::string> docker_image_for_langbot(Report& report) {
  const std::optional<Engine> engine = Engine::find("docker", report);
  if (!engine) return std::nullopt;
  const Captured others =
      run_captured({"docker", "ps", "--all", "--quiet", "--filter", "label=langbot.box=true"});
  if (others.status == 0 && trim(others.out).empty()) return engine->image();
  report.note("LangBot's runtime would remove the containers of another one: it got no engine");
  return std::nullopt;
}

LangBotScript::LangBotScript(const std::string& script, const std::vector<std::string>& arguments) {
  auto [in, input] = make_pipe();
  auto [output, out] = make_pipe();
  const UniqueFd null = open_file("/dev/null", O_RDWR);
  Command command;
  command.argv = {std::getenv(kPython), str(CAISSON_BENCHMARKS, "/", script)};
  command.argv.insert(command.argv.end(), arguments.begin(), arguments.end());
  command.env = environment();
  command.fds = {{in.get(), 0}, {out.get(), 1}, {null.get(), 2}};
  process_ = spawn(command);
  input_ = std::move(input);
  output_ = std::move(output);
}

LangBotScript::~LangBotScript() {
  input_.reset();
  if (process_.running()) process_.wait();
}

void LangBotScript::tell(std::string_view line) {
  write_all(input_.get(), str(line, "\n"), "LangBot's client");
}

boost::json::object LangBotScript::hear() {
  const Deadline deadline = Clock::now() + kPatience;
  std::size_t end = 0;
  while ((end = unread_.find('\n')) == std::string::npos) {
    if (Clock::now() >= deadline) {
      throw Error(ErrorCode::internal_error, "LangBot's client does not answer");
    }
    pollfd readable{output_.get(), POLLIN, 0};
    if (::poll(&readable, 1, 1000) <= 0) continue;
    char buffer[4096];
    const ssize_t got = ::read(output_.get(), buffer, sizeof buffer);
    if (got <= 0) throw Error(ErrorCode::internal_error, "LangBot's client has ended");
    unread_.append(buffer, static_cast<std::size_t>(got));
  }
  boost::json::object told = boost::json::parse(unread_.substr(0, end)).as_object();
  unread_.erase(0, end + 1);
  if (const boost::json::value* error = told.if_contains("error")) {
    throw Error(ErrorCode::internal_error, std::string(error->as_string()));
  }
  return told;
}

}  // namespace caisson::benchmarks
