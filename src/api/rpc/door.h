#pragma once
#include <cstddef>
#include <map>
#include <optional>
#include <string>

#include "net/http.h"

namespace caisson::api::rpc {

inline constexpr const char* kInstanceHeader = "X-LangBot-Instance-Id";
inline constexpr const char* kTokenHeader = "X-LangBot-Box-Control-Token";
inline constexpr const char* kWorkspaceHeader = "X-LangBot-Workspace-Id";
inline constexpr const char* kGenerationHeader = "X-LangBot-Placement-Generation";

struct DoorSettings {
  std::string control_token;     // that hosts must show; empty: none
  std::string daemon_token;      // shown instead, it will do as well
  bool token_required = false;   // by the daemon, of whoever comes
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
    std::string instance;  // empty: a host of old
  };
  // nullopt: the answer is 401. Pure: nobody becomes trusted by asking.
  std::optional<Visitor> judge(const net::Request& request) const;

  // Whether the request shows what a host must show, and names the trusted instance.
  bool is_trusted(const net::Request& request) const;
  // Whether the request shows the token that hosts must show, if there is one.
  bool shows_token(const net::Request& request) const;
  bool asks_for_token() const {
    return !settings_.control_token.empty() || settings_.token_required;
  }
  // Whether the request shows the daemon's own token, where that is asked of everybody.
  bool is_user(const net::Request& request) const;

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
  bool may_follow(const std::string& instance) const;

  DoorSettings settings_;
  std::string pinned_;
  std::map<std::string, std::size_t> present_;
};

}  // namespace caisson::api::rpc
