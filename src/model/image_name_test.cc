#include "model/image_name.h"

#include <gtest/gtest.h>

#include "model/box_settings.h"

namespace caisson::model {
namespace {

TEST(ImageName, OfTheDefaultImageHasManySpellings) {
  for (const std::string_view name :
       {kDefaultImage, std::string_view(""), std::string_view("host"),
        std::string_view("rockchin/langbot-sandbox"),
        std::string_view("rockchin/langbot-sandbox:0.7.16"),
        std::string_view("rockchin/langbot-sandbox@sha256:0123456789abcdef"),
        std::string_view("rockchin/langbot-sandbox:latest@sha256:0123456789abcdef"),
        std::string_view("docker.io/rockchin/langbot-sandbox"),
        std::string_view("index.docker.io/rockchin/langbot-sandbox:latest"),
        std::string_view("ghcr.io/rockchin/langbot-sandbox:v1"),
        std::string_view("registry.example:5000/rockchin/langbot-sandbox"),
        std::string_view("localhost:5000/rockchin/langbot-sandbox:v1"),
        std::string_view("localhost/rockchin/langbot-sandbox"),
        std::string_view("mirror.example/hub/rockchin/langbot-sandbox:latest")}) {
    EXPECT_TRUE(is_default_image(name)) << name;
    EXPECT_TRUE(is_same_image(name, kDefaultImage)) << name;
  }
}

TEST(ImageName, OfAnotherImageIsNoSpellingOfTheDefaultOne) {
  for (const char* name :
       {"debian:12", "langbot-sandbox", "library/langbot-sandbox", "rockchin/langbot",
        "rockchin/langbot-sandbox-extra", "rockchin/langbot-sandbox/extra",
        "someone/rockchin/langbot-sandbox", "docker.io/notrockchin/langbot-sandbox",
        "docker.iorockchin/langbot-sandbox", "evil/docker.io/rockchin/langbot-sandbox", "Host",
        "host:latest", "docker.io/host", ":latest", "@sha256:00"}) {
    EXPECT_FALSE(is_default_image(name)) << name;
    EXPECT_FALSE(is_same_image(name, kDefaultImage)) << name;
    EXPECT_TRUE(is_same_image(name, name)) << name;
  }
  EXPECT_FALSE(is_same_image("debian:12", "docker.io/debian:12"));
}

}  // namespace
}  // namespace caisson::model
