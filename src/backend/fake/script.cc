#include "backend/fake/script.h"

#include <utility>

#include "base/error.h"
#include "base/str.h"

namespace caisson::backend::fake {
namespace {

class Parser {
 public:
  explicit Parser(std::string_view script) : rest_(script) {}

  std::vector<Statement> parse() {
    while (skip_blanks(), !rest_.empty()) parse_next();
    finish_statement();
    if (statement_.join != Join::always) refuse("end of script");
    return std::move(statements_);
  }

 private:
  [[noreturn]] static void refuse(std::string_view what) {
    throw Error(ErrorCode::validation_error, str("the simulated shell does not understand ", what));
  }

  bool accept(std::string_view token) {
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }

  void skip_blanks() {
    while (accept(" ") || accept("\t") || accept("\\\n")) {
    }
    if (rest_.starts_with('#')) rest_.remove_prefix(std::min(rest_.find('\n'), rest_.size()));
  }

  void finish_statement(Join next = Join::always) {
    if (!statement_.words.empty() || !statement_.redirections.empty()) {
      statements_.push_back(std::exchange(statement_, {}));
      statement_.join = next;
    } else if (next != Join::always) {
      refuse("an operator without a command before it");
    }
  }

  void parse_next() {
    if (accept("&&")) return finish_statement(Join::if_succeeded);
    if (accept("||")) return finish_statement(Join::if_failed);
    if (accept("\n") || accept(";")) return finish_statement();
    if (accept("&")) {
      statement_.background = true;
      return finish_statement();
    }
    if (rest_.front() == '|' || rest_.front() == '(' || rest_.front() == ')') {
      refuse(str("'", rest_.front(), "'"));
    }
    if (!parse_redirection()) statement_.words.push_back(parse_word());
  }

  bool parse_redirection() {
    const bool numbered = rest_.size() > 1 && rest_[0] >= '0' && rest_[0] <= '9' &&
                          (rest_[1] == '<' || rest_[1] == '>');
    Redirection redirection;
    if (numbered) redirection.fd = rest_[0] - '0';
    std::string_view after = numbered ? rest_.substr(1) : rest_;
    if (after.empty() || (after[0] != '<' && after[0] != '>')) return false;
    rest_ = after;
    if (accept(">&")) {
      redirection.kind = Redirection::Kind::duplicate;
    } else if (accept("<&")) {
      if (!numbered) redirection.fd = 0;
      redirection.kind = Redirection::Kind::duplicate;
    } else if (accept(">>")) {
      redirection.kind = Redirection::Kind::append;
    } else if (accept("<")) {
      if (!numbered) redirection.fd = 0;
      redirection.kind = Redirection::Kind::read;
    } else {
      accept(">");
    }
    skip_blanks();
    redirection.target = parse_word();
    if (redirection.target.empty()) refuse("a redirection without a target");
    statement_.redirections.push_back(std::move(redirection));
    return true;
  }

  Word parse_word() {
    constexpr std::string_view kEnd = " \t\n;&|<>()";
    Word word;
    while (!rest_.empty() && kEnd.find(rest_.front()) == std::string_view::npos) {
      if (accept("'")) {
        word.push_back({take_until('\''), false});
      } else if (accept("\"")) {
        take_double_quoted(word);
      } else if (accept("\\")) {
        word.push_back({take(1), false});
      } else if (rest_.front() == '`' || rest_.starts_with("$(")) {
        refuse("command substitution");
      } else {
        const std::size_t end = rest_.find_first_of(" \t\n;&|<>()'\"\\`", 1);
        word.push_back({take(std::min(end, rest_.size())), true});
      }
    }
    return word;
  }

  std::string take(std::size_t length) {
    std::string taken(rest_.substr(0, length));
    rest_.remove_prefix(taken.size());
    return taken;
  }

  std::string take_until(char quote) {
    const std::size_t end = rest_.find(quote);
    if (end == std::string_view::npos) refuse("a quote that does not end");
    std::string taken = take(end);
    take(1);
    return taken;
  }

  void take_double_quoted(Word& word) {
    word.push_back({"", false});
    for (;;) {
      if (rest_.empty()) refuse("a quote that does not end");
      if (accept("\"")) return;
      if (rest_.front() == '\\' && rest_.size() > 1 &&
          std::string_view("\"\\$`").find(rest_[1]) != std::string_view::npos) {
        take(1);
        word.push_back({take(1), false});
        continue;
      }
      if (rest_.front() == '`' || rest_.starts_with("$(")) refuse("command substitution");
      const std::size_t end = rest_.find_first_of("\"\\`", 1);
      word.push_back({take(std::min(end, rest_.size())), true});
    }
  }

  std::string_view rest_;
  Statement statement_;
  std::vector<Statement> statements_;
};

}  // namespace

std::vector<Statement> parse_script(std::string_view script) {
  return Parser(script).parse();
}

}  // namespace caisson::backend::fake
