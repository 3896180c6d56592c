#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace caisson::backend::fake {

// The language of the simulated shell is small on purpose: simple commands joined by newline, `;`,
// `&&` and `||`, `&` at the end of one, quotes, `$NAME`, `$0`, `$?`, `$$`, `$!`, and redirections
// to files and to other descriptors (`3<&-` closes one). No pipelines, no substitution, no
// splitting of what a variable holds.

struct Piece {
  std::string text;
  bool expand = true;  // replace $NAME in it
};
using Word = std::vector<Piece>;

struct Redirection {
  enum class Kind { read, write, append, duplicate };
  int fd = 1;
  Kind kind = Kind::write;
  Word target;
};

enum class Join { always, if_succeeded, if_failed };

struct Statement {
  Join join = Join::always;
  std::vector<Word> words;
  std::vector<Redirection> redirections;
  bool background = false;
};

// Throws validation_error that names what the simulation does not understand.
std::vector<Statement> parse_script(std::string_view script);

}  // namespace caisson::backend::fake
