#pragma once
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>

#include "base/str.h"
#include "base/text.h"
#include "net/frame.h"
#include "net/handshake.h"
#include "net/server_for_test.h"
#include "net/websocket.h"

namespace caisson::net {

inline constexpr MaskKey kTestKey = {'\x12', '\x34', '\x56', '\x78'};

// The bytes of one frame, as a server sends it.
inline std::string server_frame(Opcode opcode, std::string_view payload, bool final = true) {
  std::string bytes;
  append_frame_head(bytes, {.final = final, .opcode = opcode, .length = payload.size()});
  return bytes.append(payload);
}

// And as a client does.
inline std::string client_frame(Opcode opcode, std::string payload, bool final = true) {
  std::string bytes;
  append_frame_head(bytes,
                    {.final = final, .opcode = opcode, .length = payload.size(), .mask = kTestKey});
  apply_mask(payload, kTestKey, 0);
  return bytes + payload;
}

inline std::string upgrade_request(std::string_view target, std::uint16_t port,
                                   std::string_view headers = "") {
  return str("GET ", target, " HTTP/1.1\r\nHost: localhost:", port,
             "\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
             "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
             headers, "\r\n");
}

// A websocket client that sends exactly the bytes it is given.
class RawWebSocket : public RawClient {
 public:
  // With bytes that follow the request at once.
  RawWebSocket(std::uint16_t port, std::string_view target, std::string_view bytes = "")
      : RawClient(port) {
    const std::string answer = ask(str(upgrade_request(target, port), bytes));
    EXPECT_EQ(status_in(answer), 101) << answer;
  }

  struct Frame {
    FrameHead head;
    std::string payload;
  };
  // The next frame; a Close without a payload when the connection ended without one.
  Frame read_frame() {
    std::string bytes = read_bytes(2);
    if (bytes.size() < 2) return {.head = {.opcode = Opcode::close}, .payload = "gone"};
    while (true) {
      if (const auto decoded = decode_frame_head(bytes)) {
        return {.head = decoded->head, .payload = read_bytes(decoded->head.length)};
      }
      bytes += read_bytes(1);
    }
  }
  void send_frame(Opcode opcode, std::string_view payload, bool final = true) {
    send(client_frame(opcode, std::string(payload), final));
  }
  // The payload of the next frame, which must be of that kind.
  std::string read(Opcode opcode) {
    Frame frame = read_frame();
    EXPECT_EQ(static_cast<int>(frame.head.opcode), static_cast<int>(opcode)) << frame.payload;
    return frame.payload;
  }
  // The code of the Close that must be next; 0 when there is none.
  int read_close() {
    const Frame frame = read_frame();
    if (frame.head.opcode != Opcode::close || frame.payload == "gone") return 0;
    return static_cast<int>(decode_close(frame.payload).code);
  }
};

inline std::string numbered_text(int number) {
  return std::to_string(number).append(4096, '.');
}

// Routes that hold conversations, and what their handlers saw.
struct Conversations {
  WebSocketOptions options;
  std::atomic<int> begun = 0;
  std::atomic<int> ended = 0;
  std::atomic<int> last_code = 0;              // with which the last one ended
  std::atomic<std::size_t> numbers_taken = 0;  // of the texts of /numbers

  void note(const WebSocket& socket) {
    last_code = static_cast<int>(socket.reason().code);
    ++ended;
  }

  void fill(Router& router) {
    const auto add = [&](const char* path, Handler handler) {
      router.add("GET", path, std::move(handler), {.websocket = true});
    };
    // Answers each message with itself.
    add("/echo", [this](Exchange& exchange) -> Task<void> {
      WebSocket socket = co_await exchange.accept_websocket(options);
      ++begun;
      for (;;) {
        std::optional<Message> message = co_await socket.read();
        if (!message) break;
        const bool taken = co_await socket.write(std::move(*message));
        if (!taken) break;
      }
      note(socket);
    });
    // Reads nothing, and waits for the end.
    add("/hold", [this](Exchange& exchange) -> Task<void> {
      const WebSocket socket = co_await exchange.accept_websocket(options);
      ++begun;
      co_await socket.ended().wait();
      note(socket);
    });
    // Writes large messages for as long as they are taken.
    add("/flood", [this](Exchange& exchange) -> Task<void> {
      WebSocket socket = co_await exchange.accept_websocket(options);
      ++begun;
      for (bool taken = true; taken;)
        taken = co_await socket.write_text(std::string(8u << 20, 'x'));
      note(socket);
    });
    // Writes texts that begin with numbers, all at once.
    add("/numbers/{count}", [this](Exchange& exchange) -> Task<void> {
      WebSocket socket = co_await exchange.accept_websocket(options);
      std::vector<std::string> texts;
      for (int number = 0; number < std::stoi(exchange.param("count")); ++number) {
        texts.push_back(numbered_text(number));
      }
      ++begun;
      co_await socket.write_texts(std::move(texts), [this](std::size_t now) {
        EXPECT_GT(now, numbers_taken);
        numbers_taken = now;
      });
      note(socket);
    });
    // Says good-bye.
    add("/bye", [this](Exchange& exchange) -> Task<void> {
      WebSocket socket = co_await exchange.accept_websocket(options);
      CloseReason reason{.code = static_cast<CloseCode>(4000), .text = "bye"};
      co_await socket.close(std::move(reason));
      note(socket);
    });
    add("/fail/{code}", [this](Exchange& exchange) -> Task<void> {
      const WebSocket socket = co_await exchange.accept_websocket(options);
      if (exchange.param("code") == "busy") throw Error(ErrorCode::busy, "come back later");
      if (exchange.param("code") == "lost") throw Error(ErrorCode::box_lost, "the box is gone");
      throw std::runtime_error("secret");
    });
    add("/none", [](Exchange&) -> Task<void> {
      throw Error(ErrorCode::session_not_found, "there is no such session");
      co_return;
    });
    // Insists on a subprotocol.
    add("/mcp", [this](Exchange& exchange) -> Task<void> {
      const std::vector<std::string> offered = offered_subprotocols(exchange.request());
      if (std::find(offered.begin(), offered.end(), "mcp") == offered.end()) {
        throw Error(ErrorCode::validation_error, "offer mcp");
      }
      WebSocketOptions with_mcp = options;
      with_mcp.subprotocol = "mcp";
      WebSocket socket = co_await exchange.accept_websocket(std::move(with_mcp));
      co_await socket.write_text(join(offered, ","));
    });
  }
};

}  // namespace caisson::net
