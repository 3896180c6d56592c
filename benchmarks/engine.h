#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "peers.h"
#include "report.h"

namespace caisson::benchmarks {

// A container engine that works here, with an image that is here already: nothing is started that
// does not run, nothing is pulled.
class Engine {
 public:
  // Nothing, and a note that says why, when the engine cannot be used.
  static std::optional<Engine> find(const std::string& program, Report& report);

  const std::string& image() const { return image_; }  // the trivial command works in it
  PeerCommand run_command() const;                     // "docker run": a container for one command

  // A container that waits; removed with the object.
  class Container {
   public:
    Container(std::string program, std::string id)
        : program_(std::move(program)), id_(std::move(id)) {}
    Container(const Container&) = delete;
    Container& operator=(const Container&) = delete;
    ~Container();
    PeerCommand exec_command() const;  // "docker exec"

   private:
    std::string program_;
    std::string id_;
  };
  std::unique_ptr<Container> start_container() const;

 private:
  Engine(std::string program, std::string image)
      : program_(std::move(program)), image_(std::move(image)) {}

  std::string program_;
  std::string image_;
};

// Docker and Podman, as far as they work here.
std::vector<Engine> find_engines(Report& report);

}  // namespace caisson::benchmarks
