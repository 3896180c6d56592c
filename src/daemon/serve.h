#pragma once
#include <boost/asio/any_io_executor.hpp>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "backend/backend.h"
#include "backend/keeper.h"
#include "model/config.h"

namespace caisson::daemon {

// What LangBot's environment says, and how its host speaks to us.
struct LangbotOptions {
  std::string control_token;        // that hosts must show; empty: none
  std::string trusted_instance;     // the only one that may come; empty: whichever comes first
  bool unsafe_soft_limits = false;  // storage that nothing binds is accepted
  bool stdio_control = false;       // standard input and output are a host's; it ends with them
};

struct ServeOptions {
  model::Config config;
  std::filesystem::path state_dir;
  std::filesystem::path socket;  // what caisson.listen.socket means by "auto"
  std::string version;
  LangbotOptions langbot = {};
  bool replace = false;  // the daemon that has the state directory, which leaves its boxes to us
};

// With a keeper, boxes are to survive this process; `kept` is what the one before us left.
using MakeBackend = std::function<std::unique_ptr<backend::Backend>(
    const boost::asio::any_io_executor&, backend::Keeper* keeper, backend::KeptEntries& kept)>;

// The life of the daemon: holds the state directory, listens, and serves until SIGTERM or SIGINT,
// then lets requests finish for a while, ends its boxes or leaves them to the next daemon
// (caisson.on_stop; always when that one asks for it), and returns 0. A second signal ends it at
// once. So does the end of standard input where that is a host's, with boxes and all. Throws when
// it cannot start; nothing is left behind then either.
int serve(ServeOptions options, const MakeBackend& make_backend);

}  // namespace caisson::daemon
