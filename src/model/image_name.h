#pragma once
#include <string_view>

namespace caisson::model {

// Whether a box of this image is made of the host's own programs: no name, "host", and the image
// that LangBot asks for, whatever its tag, its digest and the registry that it would come from.
bool is_default_image(std::string_view name);

// Whether both mean the same root file system, however they spell it.
bool is_same_image(std::string_view a, std::string_view b);

}  // namespace caisson::model
