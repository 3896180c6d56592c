#include <sys/signalfd.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <boost/json/array.hpp>
#include <csignal>
#include <memory>
#include <utility>

#include "backend/native/image_store.h"
#include "backend/native/tools.h"
#include "base/error.h"
#include "base/str.h"
#include "cli/command.h"
#include "cli/option.h"
#include "cli/report.h"
#include "cli/settings.h"
#include "cli/terminal.h"

namespace caisson::cli {

namespace {

namespace json = boost::json;
namespace native = backend::native;

struct Request {
  std::optional<std::string> state;
  bool json = false;
  bool names_only = false;
  std::string name;
  std::string source;
  std::vector<std::string> names;

  std::filesystem::path directory() const {
    return state_directory(state, process_environment(), ::geteuid() == 0);
  }
  native::ImageStore store() const { return native::ImageStore(directory()); }
};

json::object to_json(const native::Image& image) {
  json::array notes;
  for (const std::string& text : image.notes) notes.emplace_back(text);
  return {{"name", image.name},
          {"source", native::to_string(image.source)},
          {"bytes", image.bytes},
          {"entries", image.entries},
          {"skipped", image.skipped},
          {"owners_kept", image.owners_kept},
          {"created_at", image.created_at},
          {"notes", std::move(notes)},
          {"rootfs", image.rootfs.native()}};
}

// The signal that asked the import to end, or 0. The import then removes what it made; a second
// signal ends the program at once, and the next import removes it.
volatile std::sig_atomic_t asked_to_end = 0;

struct Interrupted {};

void end_on_signal() {
  struct sigaction action {};
  action.sa_handler = [](int number) { asked_to_end = number; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction current {};
    check_syscall("sigaction", ::sigaction(number, nullptr, &current));
    if (current.sa_handler == SIG_IGN) continue;
    check_syscall("sigaction", ::sigaction(number, &action, nullptr));
  }
}

int run_import(const Request& request) {
  end_on_signal();
  ProgressLine line(!request.json);
  const auto progress = [&](const native::TreeCount& count) {
    if (asked_to_end != 0) throw Interrupted{};
    if (!line.due()) return;
    line.show(str("importing ", request.name, ": ", count.entries, " entries, ",
                  human_bytes(count.bytes)));
  };
  const std::filesystem::path source = request.source == "-" ? "/dev/stdin" : request.source;
  native::Image image;
  try {
    image = request.store().import(request.name, source, progress);
  } catch (const Interrupted&) {
    return kExitSignalBase + asked_to_end;
  }
  if (request.json) {
    print(to_json(image));
    return 0;
  }
  for (const std::string& text : image.notes) note(text);
  print(str("imported ", image.name, ": ", image.entries, " entries, ", human_bytes(image.bytes),
            "\n"));
  return 0;
}

void print_table(const std::vector<native::Image>& images) {
  std::size_t width = 4;
  for (const native::Image& image : images) width = std::max(width, image.name.size());
  std::string table = str(padded("NAME", width), "  SIZE        ENTRIES   CREATED\n");
  for (const native::Image& image : images) {
    table += str(padded(image.name, width), "  ", padded(human_bytes(image.bytes), 10), "  ",
                 padded(str(image.entries), 8), "  ", image.created_at, "\n");
  }
  print(table);
}

int run_list(const Request& request) {
  const std::vector<native::Image> images = request.store().list();
  if (request.json) {
    json::array list;
    for (const native::Image& image : images) list.push_back(to_json(image));
    print({{"images", std::move(list)}});
  } else if (request.names_only) {
    for (const native::Image& image : images) print(str(image.name, "\n"));
  } else {
    print_table(images);
  }
  return 0;
}

int run_remove(const Request& request) {
  native::ImageStore store = request.store();
  // A mistyped name is found before anything is gone.
  for (const std::string& name : request.names) store.get(name);
  json::array removed;
  for (const std::string& name : request.names) {
    store.remove(name);
    removed.emplace_back(name);
    if (!request.json) print(str("removed ", name, "\n"));
  }
  if (request.json) print({{"removed", std::move(removed)}});
  return 0;
}

// A descriptor that can be read once somebody wants this program to end, which it then does in
// order.
UniqueFd wishes_to_end() {
  sigset_t wishes;
  sigemptyset(&wishes);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction current {};
    check_syscall("sigaction", ::sigaction(number, nullptr, &current));
    if (current.sa_handler != SIG_IGN) sigaddset(&wishes, number);
  }
  check_syscall("sigprocmask", ::sigprocmask(SIG_BLOCK, &wishes, nullptr));
  return UniqueFd(check_syscall("signalfd", ::signalfd(-1, &wishes, SFD_CLOEXEC)));
}

int run_tools(const Request& request) {
  const native::Tools tools(request.directory());
  const UniqueFd stop = wishes_to_end();
  const bool shows = !request.json && ::isatty(STDERR_FILENO) == 1;
  bool fetched = false;
  try {
    fetched = tools.fetch({.progress = shows ? STDERR_FILENO : -1, .stop = stop.get()});
  } catch (const Error& error) {
    signalfd_siginfo wish{};
    if (error.code() != ErrorCode::cancelled) throw;
    check_syscall("signalfd", ::read(stop.get(), &wish, sizeof wish));
    return kExitSignalBase + static_cast<int>(wish.ssi_signo);
  }
  if (request.json) {
    print({{"tools", tools.set().name},
           {"directory", tools.directory().native()},
           {"fetched", fetched}});
  } else {
    print(str(fetched ? "fetched " : "here already: ", tools.set().name, "\n"));
  }
  return 0;
}

CLI::App& add_action(CLI::App& image, const std::string& name, const std::string& description,
                     const std::shared_ptr<Request>& request, int (*work)(const Request&),
                     Invocation& invocation) {
  CLI::App& app = *image.add_subcommand(name, description);
  add_state(app, request->state);
  add_json(app, request->json);
  app.callback([=, &invocation] { invocation.work = [=] { return work(*request); }; });
  return app;
}

}  // namespace

void add_image(CLI::App& program, Invocation& invocation) {
  CLI::App& app = *program.add_subcommand("image", "Root file systems that boxes are made from");
  app.require_subcommand(1);
  const auto request = std::make_shared<Request>();
  CLI::App& import = add_action(app, "import", "Make an image of a directory or a tar", request,
                                run_import, invocation);
  import.add_option("NAME", request->name, "What to call it, e.g. debian:12")
      ->required()
      ->type_name("");
  import
      .add_option("SOURCE", request->source,
                  "A directory, a tar in any usual compression, or - for a tar on standard input")
      ->required()
      ->type_name("PATH");
  import.footer(
      "Example:\n  docker export $(docker create alpine) | caisson image import alpine -\n");
  CLI::App& list = add_action(app, "ls", "List the images", request, run_list, invocation);
  list.add_flag("-q,--quiet", request->names_only, "Print the names only");
  CLI::App& remove = add_action(app, "rm", "Remove images", request, run_remove, invocation);
  remove.add_option("NAME", request->names, "The images to remove")->required()->type_name("IMAGE");
  CLI::App& tools = add_action(app, "tools", "Fetch uv, node, npm and pip for the default image",
                               request, run_tools, invocation);
  tools.footer(
      "Boxes of the default image have this host's programs. What it lacks of pip, uv, uvx, node,\n"
      "npm and npx is fetched once, by the host's pip and of fixed versions and hashes; boxes "
      "that\n"
      "run already see it, too. Does nothing when it has been done.\n");
}

}  // namespace caisson::cli
