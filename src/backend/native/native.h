#pragma once
#include <boost/asio/any_io_executor.hpp>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/keeper.h"
#include "model/isolation.h"

namespace caisson::backend::native {

struct Options {
  std::filesystem::path state_dir;  // imported images live below it
  // Layers whose absence the operator accepted. A box without one of them starts, and says so.
  std::set<model::Layer> allow_missing;
  // Directories of the host that boxes may show parts of, resolved; empty: all but what never may.
  std::vector<std::string> mount_roots;
  std::string name = "native";  // what callers are told; managed hosts insist on another
  // Keep a process ready for the next box. Of no use to who makes a single one.
  bool keep_spares = true;
  // Where boxes are left when this process dies, and what an owner before us left there. None:
  // boxes end with their owner. It outlives the backend, and loses nothing once that is gone.
  Keeper* keeper = nullptr;
  KeptEntry inherited = {};  // see kKeptName
  // For tests of failure: these layers are treated as if the host could not provide them.
  std::set<model::Layer> withhold;
};

// Boxes made by this host's kernel: namespaces, control groups, seccomp, idmapped mounts.
class Native final : public Backend {
 public:
  Native(boost::asio::any_io_executor executor, Options options);
  ~Native() override;

  std::string_view name() const override;
  Task<BackendStatus> status() override;
  Task<std::unique_ptr<Box>> create(model::BoxSettings settings) override;
  Task<std::unique_ptr<Box>> adopt(model::BoxSettings settings, std::string description,
                                   std::vector<UniqueFd> fds) override;
  Task<std::string> provide(std::string image, std::string program) override;
  void set_mount_rules(MountRulesOf rules) override;
  Task<void> begin_adoption(std::vector<std::string> descriptions) override;
  void abandon() override;
  Task<void> stop() override;

  // The name under which the keeper has this backend's own entry, for the next owner.
  static constexpr const char* kKeptName = "native";

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace caisson::backend::native
