#pragma once
#include <cstddef>
#include <map>
#include <optional>
#include <string>

#include "net/http.h"
#include "net/peer.h"

namespace caisson::api::rpc {

inline constexpr const char* kInstanceHeader = "X-LangBot-Instance-Id";
inline constexpr const char* kTokenHeader = "X-LangBot-Box-Control-Token";
inline constexpr const char* kWorkspaceHeader = "X-LangBot-Workspace-Id";
inline constexpr const char* kGenerationHeader = "X-LangBot-Placement-Generation";

struct DoorSettings {
  std::string control_token;     // that hosts must show; empty: none
  std::string daemon_token;      // shown instead, it will do as well
  bool token_required = false;   // by the daemon, of whoever comes to its port
  std::string trusted_instance;  // the only one, from the start; empty: whichever comes first
  bool legacy = true;            // hosts that do not say which instance they are may come
};

// Which LangBot hosts may come in. A daemon serves one instance at a time: the configured one, or
// the first that came and spoke. That one may be followed by another when it has gone and nobody
// has to show a token. Hosts of old name no instance; they are in a domain of their own.
class Door {
 public:
  explicit Door(DoorSettings settings) : settings_(std::move(settings)) {}

  struct Visitor {
    std::string instance;      // empty: a host of old
    bool shown_token = false;  // one that hosts show, or the daemon's own
  };
  // nullopt: the answer is 401. Pure: nobody becomes trusted by asking.
  std::optional<Visitor> judge(const net::Request& request, const net::Peer& peer) const;

  // Whether a host may come from there and names the trusted instance.
  bool is_trusted(const net::Request& request, const net::Peer& peer) const;
  // Whether a host may come from there: it shows the token that hosts must show or, where there is
  // none, it is known who it is.
  bool may_come(const net::Request& request, const net::Peer& peer) const;
  // Whether it is a user of the daemon, who need not be a host.
  bool is_user(const net::Request& request, const net::Peer& peer) const;
  // Why somebody may not come, with the next step.
  std::string refusal(const net::Request& request, const net::Peer& peer) const;

  // A host that has come in has spoken: its instance is trusted from now on. False: another one is,
  // and it is still here.
  bool trust(const std::string& instance);

  // Empty: there is none yet.
  const std::string& trusted_instance() const {
    return settings_.trusted_instance.empty() ? pinned_ : settings_.trusted_instance;
  }

  // While it lives, a host of this instance is here.
  class Presence {
   public:
    Presence(Door& door, std::string instance) : door_(&door), instance_(std::move(instance)) {
      ++door_->present_[instance_];
    }
    Presence(const Presence&) = delete;
    Presence& operator=(const Presence&) = delete;
    ~Presence() {
      if (--door_->present_[instance_] == 0) door_->present_.erase(instance_);
    }

   private:
    Door* door_;
    std::string instance_;
  };

 private:
  bool shows_token(const net::Request& request, const net::Peer& peer) const;
  bool may_follow(const std::string& instance) const;

  DoorSettings settings_;
  std::string pinned_;
  std::map<std::string, std::size_t> present_;
};

}  // namespace caisson::api::rpc
