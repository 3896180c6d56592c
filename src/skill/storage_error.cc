#include "skill/storage_error.h"

#include <cerrno>

#include "base/error.h"
#include "base/str.h"

namespace caisson::skill {

void rethrow_storage_error(std::string_view subject) {
  try {
    throw;
  } catch (const SystemError& error) {
    if (error.error_number() != ENOSPC && error.error_number() != EDQUOT) throw;
    throw Error(ErrorCode::storage_full,
                str(subject, ": no space left for skills; remove some and try again"));
  }
}

}  // namespace caisson::skill
