#include <boost/asio/use_awaitable.hpp>
#include <cctype>
#include <csignal>
#include <map>
#include <optional>
#include <utility>

#include "backend/fake/program.h"
#include "backend/fake/script.h"
#include "backend/fake/signal_name.h"
#include "base/error.h"
#include "base/path.h"
#include "base/str.h"
#include "base/text.h"

namespace caisson::backend::fake {
namespace {

constexpr int kNotFound = 127;
constexpr int kSyntaxError = 2;

// printf(1) with %s and \n only: the format is used again while there are arguments.
std::string format(const std::vector<std::string>& argv) {
  std::string out;
  std::size_t next = 2;
  do {
    const std::string_view pattern = argv.size() > 1 ? std::string_view(argv[1]) : "";
    for (std::size_t i = 0; i < pattern.size(); ++i) {
      const std::string_view pair = pattern.substr(i, 2);
      if (pair == "%s") out += next < argv.size() ? argv[next++] : "";
      if (pair == "\\n") out += '\n';
      if (pair == "%s" || pair == "\\n") {
        ++i;
      } else {
        out += pattern[i];
      }
    }
  } while (next > 2 && next < argv.size());
  return out;
}

bool is_name_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
}

// A shell at work. Its variables are its environment; a child gets a copy.
class Shell {
 public:
  Shell(Call call, std::string name, std::vector<std::string> arguments)
      : call_(std::move(call)), name_(std::move(name)), arguments_(std::move(arguments)) {}

  Task<int> run(std::string script) {
    std::vector<Statement> statements;
    std::string fault;
    try {
      statements = parse_script(script);
    } catch (const Error& error) {
      fault = error.what();
    }
    if (!fault.empty()) {
      co_await complain(call_.process, str("sh: ", fault, "\n"));
      co_return kSyntaxError;
    }
    for (Statement& statement : statements) {
      const bool wanted = statement.join == Join::always ||
                          (statement.join == Join::if_succeeded) == (status_ == 0);
      if (wanted) co_await execute(std::move(statement));
      co_await run_traps();
      if (exit_) break;
    }
    co_return exit_.value_or(status_);
  }

 private:
  using Arguments = std::vector<std::string>;

  Task<void> execute(Statement statement) {
    Arguments argv;
    for (const Word& word : statement.words) {
      if (is_all_arguments(word)) {
        argv.insert(argv.end(), arguments_.begin(), arguments_.end());
      } else {
        argv.push_back(expand(word));
      }
    }
    Streams streams = call_.process->streams;
    std::string fault;
    try {
      for (const Redirection& redirection : statement.redirections) redirect(streams, redirection);
    } catch (const Error& error) {
      fault = error.what();
    }
    if (!fault.empty()) {
      status_ = kSyntaxError;
      co_await complain(call_.process, str("sh: ", fault, "\n"));
    } else if (!argv.empty() && !assign(argv)) {
      const bool built_in = !statement.background && co_await run_builtin(argv, streams);
      if (!built_in) co_await run_child(std::move(argv), streams, statement.background);
    }
  }

  void redirect(Streams& streams, const Redirection& redirection) {
    std::vector<std::shared_ptr<Stream>*> all = {&streams.in, &streams.out, &streams.err};
    for (std::shared_ptr<Stream>& more : streams.more) all.push_back(&more);
    const auto known = static_cast<int>(all.size());
    if (redirection.fd >= known) throw Error(ErrorCode::validation_error, "bad descriptor");
    std::shared_ptr<Stream>& stream = *all[static_cast<std::size_t>(redirection.fd)];
    const std::string target = expand(redirection.target);
    const std::string path = absolute(*call_.process, target);
    Files& files = call_.machine->files();
    if (redirection.kind == Redirection::Kind::duplicate) {
      const auto fd = parse_integer(target);
      if (target != "-" && (!fd || *fd < 0 || *fd >= known)) {
        throw Error(ErrorCode::validation_error, "bad descriptor");
      }
      stream = target == "-" ? nullptr : *all[static_cast<std::size_t>(*fd)];
    } else if (target == "/dev/null") {
      stream = open_null();
    } else if (redirection.kind == Redirection::Kind::read) {
      stream = open_to_read(files, path);
    } else {
      stream = open_to_write(files, path, redirection.kind == Redirection::Kind::append);
    }
  }

  // NAME=value, and nothing else, is an assignment.
  bool assign(const Arguments& argv) {
    const std::size_t equals = argv.front().find('=');
    if (argv.size() != 1 || equals == 0 || equals == std::string::npos) return false;
    for (const char c : argv.front().substr(0, equals)) {
      if (!is_name_character(c)) return false;
    }
    set_variable(argv.front());
    status_ = 0;
    return true;
  }

  void set_variable(const std::string& assignment) {
    const std::string prefix = assignment.substr(0, assignment.find('=') + 1);
    auto& env = call_.process->spec.env;
    std::erase_if(env, [&](const std::string& entry) { return entry.starts_with(prefix); });
    env.push_back(assignment);
  }

  // False when the name is not that of a builtin.
  Task<bool> run_builtin(Arguments argv, Streams streams) {
    const std::string& name = argv.front();
    const std::string argument = argv.size() > 1 ? argv[1] : "";
    const int previous = std::exchange(status_, 0);
    if (name == "exit") {
      exit_ = static_cast<int>(parse_integer(argument).value_or(previous));
    } else if (name == "export") {
      if (argument.find('=') != std::string::npos) set_variable(argument);
    } else if (name == "cd") {
      co_await change_directory(argument);
    } else if (name == "echo") {
      argv.erase(argv.begin());
      co_await streams.out->write(join(argv, " ") + "\n");
    } else if (name == "printf") {
      co_await streams.out->write(format(argv));
    } else if (name == "trap") {
      if (argv.size() == 3) set_trap(argument, argv[2]);
    } else if (name == "kill") {
      co_await kill(argv);
    } else if (name == "wait") {
      for (const SimulatedPtr& child : std::exchange(background_, {})) co_await child->ended.wait();
    } else if (name == "exec" && argv.size() > 1) {
      argv.erase(argv.begin());
      co_await run_child(std::move(argv), streams, false);
      exit_ = status_;
    } else if (name == "exec") {
      call_.process->streams = streams;
    } else if (name == "read") {
      const std::string line = co_await read_line(streams.in);
      set_variable(str(argv.back(), "=", line));
    } else if (name == ".") {
      co_await source(argument);
    } else if (name == "[") {
      status_ = argv.size() == 4 && test_file(argument, argv[2]) ? 0 : 1;
    } else if (name != ":" && name != "true") {
      co_return false;
    }
    co_return true;
  }

  // -d: a directory; -r: anything that is there.
  bool test_file(const std::string& question, const std::string& path) {
    const FileKind kind = call_.machine->files().kind(absolute(*call_.process, path));
    return question == "-d" ? kind == FileKind::directory : kind != FileKind::missing;
  }

  static Task<std::string> read_line(std::shared_ptr<Stream> stream) {
    std::string line;
    while (stream && line.find('\n') == std::string::npos) {
      const std::string piece = co_await stream->read();
      if (piece.empty()) break;
      line += piece;
    }
    co_return line.substr(0, line.find('\n'));
  }

  // A script in a file, or in a descriptor beyond the standard ones.
  Task<void> source(std::string path) {
    std::string script;
    constexpr std::string_view kDescriptors = "/dev/fd/";
    if (path.starts_with(kDescriptors)) {
      const auto fd = parse_integer(path.substr(kDescriptors.size())).value_or(0);
      const auto& more = call_.process->streams.more;
      const auto index = static_cast<std::size_t>(fd - 3);
      const std::shared_ptr<Stream> stream = fd >= 3 && index < more.size() ? more[index] : nullptr;
      while (stream) {
        const std::string piece = co_await stream->read();
        if (piece.empty()) break;
        script += piece;
      }
    } else {
      script = call_.machine->files().read(absolute(*call_.process, path));
    }
    status_ = co_await run(std::move(script));
  }

  Task<void> change_directory(std::string directory) {
    const std::string path = absolute(*call_.process, directory);
    if (call_.machine->files().kind(path) == FileKind::directory) {
      call_.process->spec.cwd = normalise_path(path);
    } else {
      status_ = kSyntaxError;
      co_await complain(call_.process, str("sh: cd: can't cd to ", directory, "\n"));
    }
  }

  void set_trap(const std::string& action, const std::string& signal_text) {
    const auto number = signal_from_text(signal_text);
    if (!number) return;
    traps_[*number] = action;
    if (action.empty()) {
      call_.process->ignored.insert(*number);
    } else {
      call_.process->caught.insert(*number);
    }
  }

  Task<void> run_traps() {
    auto& pending = call_.process->pending;
    while (!pending.empty() && !exit_) {
      const int number = pending.front();
      pending.pop_front();
      const int status = status_;
      co_await run(traps_[number]);
      status_ = status;
    }
  }

  Task<void> kill(Arguments argv) {
    int number = SIGTERM;
    for (std::size_t i = 1; i < argv.size(); ++i) {
      if (i == 1 && argv[1].starts_with('-')) {
        number = signal_from_text(argv[1].substr(1)).value_or(SIGTERM);
        continue;
      }
      const auto target = parse_integer(argv[i]);
      if (!target || !call_.machine->signal_number(*call_.process, *target, number)) {
        status_ = 1;
        co_await complain(call_.process, "sh: kill: No such process\n");
      }
    }
    co_await call_.machine->yield();  // the shell itself may have been meant
  }

  Task<void> run_child(Arguments argv, Streams streams, bool in_background) {
    ProcessSpec spec{argv, call_.process->spec.env, call_.process->spec.cwd};
    if (in_background) streams.in = open_null();
    SimulatedPtr child;
    std::string fault;
    try {
      child = call_.machine->fork(*call_.process, std::move(spec), streams);
    } catch (const SystemError& error) {
      status_ = kSyntaxError;
      fault = "sh: Cannot fork\n";
    } catch (const Error& error) {
      status_ = kNotFound;
      fault = str("sh: ", error.what(), "\n");
    }
    if (!child) {
      co_await complain(call_.process, fault);
    } else if (in_background) {
      status_ = 0;
      last_background_ = child->pid;
      background_.push_back(child);
    } else {
      co_await child->ended.wait();
      const ProcessExit exit = child->exit.value_or(ProcessExit());
      status_ = exit.signal != 0 ? 128 + exit.signal : exit.exit_code;
    }
  }

  static bool is_all_arguments(const Word& word) {
    std::string text;
    for (const Piece& piece : word) text += piece.text;
    return text == "$@" && word.back().expand;
  }

  std::string expand(const Word& word) const {
    std::string text;
    for (const Piece& piece : word) text += piece.expand ? expand(piece.text) : piece.text;
    return text;
  }

  std::string expand(std::string_view text) const {
    std::string out;
    while (!text.empty()) {
      const std::size_t dollar = std::min(text.find('$'), text.size());
      out += text.substr(0, dollar);
      text.remove_prefix(dollar);
      if (text.size() < 2) {
        out += text;
        break;
      }
      text.remove_prefix(1);
      out += take_variable(text);
    }
    return out;
  }

  // The value of what follows a '$', which is taken from `text`.
  std::string take_variable(std::string_view& text) const {
    const char first = text.front();
    if (first == '?' || first == '$' || first == '!') {
      text.remove_prefix(1);
      if (first == '?') return std::to_string(status_);
      return std::to_string(first == '$' ? call_.process->pid : last_background_);
    }
    const bool braced = first == '{';
    if (braced) text.remove_prefix(1);
    std::size_t length = 0;
    while (length < text.size() && is_name_character(text[length])) ++length;
    const std::string_view name = text.substr(0, length);
    text.remove_prefix(length);
    if (braced && text.starts_with('}')) text.remove_prefix(1);
    if (name.empty()) return "$";
    if (name == "0") return name_;
    return variable(*call_.process, name);
  }

  Call call_;
  const std::string name_;     // "$0"
  const Arguments arguments_;  // "$@"
  int status_ = 0;
  std::optional<int> exit_;
  std::int64_t last_background_ = 0;
  std::vector<SimulatedPtr> background_;
  std::map<int, std::string> traps_;
};

}  // namespace

Task<int> run_shell(Call call) {
  std::string script;
  std::string name = call.argv.front();
  std::vector<std::string> arguments;
  if (call.argv.size() > 2 && (call.argv[1] == "-c" || call.argv[1] == "-lc")) {
    script = call.argv[2];
    if (call.argv.size() > 3) name = call.argv[3];
    if (call.argv.size() > 4) arguments.assign(call.argv.begin() + 4, call.argv.end());
  } else if (call.argv.size() > 1) {
    script = call.machine->files().read(absolute(*call.process, call.argv[1]));
  } else {
    for (;;) {
      const std::string piece = co_await read_input(call.process);
      if (piece.empty()) break;
      script += piece;
    }
  }
  Shell shell(std::move(call), std::move(name), std::move(arguments));
  co_return co_await shell.run(std::move(script));
}

}  // namespace caisson::backend::fake
