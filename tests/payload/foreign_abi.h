#pragma once
#include "check.h"

namespace caisson::payload {

// System calls by the doors that a filter for this architecture does not watch. Each runs in a
// child: the box has to end the process, an error number is not enough (the arguments of the 32-bit
// socketcall cannot be filtered).
Outcome judge_ia32_getpid();
Outcome judge_ia32_socket(int family, int type);
Outcome judge_x32_getpid();

}  // namespace caisson::payload
