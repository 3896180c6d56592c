#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "async/event.h"
#include "async/task.h"
#include "net/router.h"
#include "net/websocket.h"
#include "session/process.h"

// Websockets to the standard streams of a process. Two subprotocols: `mcp`, one line a message, as
// LangBot's clients and the MCP SDKs speak it, and `caisson.v1`, with offsets.
namespace caisson::api {

inline constexpr const char* kLinesProtocol = "mcp";
inline constexpr const char* kOffsetsProtocol = "caisson.v1";

// A client at a process. Everything that works for it holds it: nothing outlives what it uses.
struct Relay {
  std::shared_ptr<session::ManagedProcess> process;
  net::WebSocket socket;
  Event done;  // there is nothing more to do for this client
};
using RelayPtr = std::shared_ptr<Relay>;

// The client that the process has, for as long as it lives: the journal holds for it what it has
// not got yet, and counts as delivered what it got.
class Attachment {
 public:
  Attachment(std::shared_ptr<session::ManagedProcess> process, Turns::Turn turn,
             std::uint64_t offset);
  Attachment(const Attachment&) = delete;
  Attachment& operator=(const Attachment&) = delete;
  ~Attachment();

  // Everything before it is delivered.
  void deliver(std::uint64_t offset);
  // The same, and what is there is the rest of a line that nobody gets: whoever comes next begins
  // with the line behind it.
  void pass_over(std::uint64_t offset);
  // The line that begins at `offset`, where deliver() was last, does not fit the journal's
  // capacity: there is to be room for it.
  void await_line(std::uint64_t offset);

 private:
  std::shared_ptr<session::ManagedProcess> process_;
  Turns::Turn turn_;
};

// Where the client goes on that says nothing else: at the first byte not delivered, if it is kept.
std::uint64_t undelivered(session::ManagedProcess& process);

// Waits until the process has no other client. Nothing: this one has gone, or was sent away by
// another one that takes over.
Task<std::optional<Turns::Turn>> wait_for_turn(RelayPtr relay);

// Sends the client away when another one takes over.
Task<void> end_when_taken_over(RelayPtr relay);

// Runs a client's conversation to its end. The socket is closed afterwards.
Task<void> relay_lines(RelayPtr relay);

// What a client of caisson.v1 asks for in the query.
struct OffsetsRequest {
  std::optional<std::uint64_t> from;  // of standard output; none: where the last client left off
  std::optional<std::uint64_t> err_from;  // of standard error; none: not at all
  bool confirms = false;  // it says what it has got; else what its connection has taken counts
  enum class Mode { wait, takeover, observe } mode = Mode::wait;
};
// Throws validation_error, also for an offset that the stream has not reached.
OffsetsRequest read_offsets_request(const net::Request& request,
                                    const session::ManagedProcess& process);
Task<void> relay_offsets(RelayPtr relay, OffsetsRequest request);

}  // namespace caisson::api
