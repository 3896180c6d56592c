#include "model/image_name.h"

namespace caisson::model {

namespace {

constexpr std::string_view kLangbotRepository = "rockchin/langbot-sandbox";

// "rockchin/langbot-sandbox" of "rockchin/langbot-sandbox:latest@sha256:...". A colon before the
// last slash is that of a registry's port.
std::string_view without_version(std::string_view name) {
  name = name.substr(0, name.find('@'));
  const std::size_t colon = name.rfind(':');
  const std::size_t slash = name.rfind('/');
  const bool is_tag =
      colon != std::string_view::npos && (slash == std::string_view::npos || colon > slash);
  return is_tag ? name.substr(0, colon) : name;
}

// As docker tells them from the first part of a repository's name.
bool is_registry(std::string_view part) {
  return part == "localhost" || part.find_first_of(".:") != std::string_view::npos;
}

}  // namespace

bool is_default_image(std::string_view name) {
  if (name.empty() || name == "host") return true;
  const std::string_view repository = without_version(name);
  if (repository == kLangbotRepository) return true;
  // Registries that mirror others put a path of their own before the name.
  if (!repository.ends_with(kLangbotRepository)) return false;
  const std::string_view place =
      repository.substr(0, repository.size() - kLangbotRepository.size());
  return place.ends_with('/') && is_registry(place.substr(0, place.find('/')));
}

bool is_same_image(std::string_view a, std::string_view b) {
  return a == b || (is_default_image(a) && is_default_image(b));
}

}  // namespace caisson::model
