#include "net/websocket.h"

#include <utility>

#include "net/conversation.h"

namespace caisson::net {

WebSocket::WebSocket(std::shared_ptr<Conversation> conversation)
    : conversation_(std::move(conversation)) {}

WebSocket::~WebSocket() {
  if (conversation_) conversation_->leave();
}

Task<std::optional<Message>> WebSocket::read() {
  return Conversation::read(conversation_);
}

std::optional<Message> WebSocket::read_now() {
  return conversation_->read_now();
}

Task<bool> WebSocket::write(Message message) {
  return Conversation::write(conversation_, std::move(message));
}

Task<bool> WebSocket::write_text(std::string text) {
  return write({.kind = MessageKind::text, .data = std::move(text)});
}

Task<bool> WebSocket::write_binary(std::string bytes) {
  return write({.kind = MessageKind::binary, .data = std::move(bytes)});
}

Task<bool> WebSocket::write_texts(std::vector<std::string> texts,
                                  std::function<void(std::size_t)> taken) {
  return Conversation::write_texts(conversation_, std::move(texts), std::move(taken));
}

Task<void> WebSocket::close(CloseReason reason) {
  return Conversation::close(conversation_, std::move(reason));
}

const Event& WebSocket::ended() const {
  return conversation_->ended();
}

const CloseReason& WebSocket::reason() const {
  return conversation_->reason();
}

bool WebSocket::peer_closed() const {
  return conversation_->peer_closed();
}

const std::shared_ptr<Share>& WebSocket::share() const {
  return conversation_->share();
}

const std::string& WebSocket::subprotocol() const {
  return conversation_->options().subprotocol;
}

}  // namespace caisson::net
