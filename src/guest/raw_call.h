#pragma once
#include <type_traits>

namespace caisson::guest {

inline long raw_call_of_four(long number, long a, long b, long c, long d) {
#if defined(__x86_64__)
  long result = number;
  register long fourth __asm__("r10") = d;
  __asm__ volatile("syscall"
                   : "+a"(result)
                   : "D"(a), "S"(b), "d"(c), "r"(fourth)
                   : "rcx", "r11", "memory");
  return result;
#elif defined(__aarch64__)
  register long code __asm__("x8") = number;
  register long result __asm__("x0") = a;
  register long second __asm__("x1") = b;
  register long third __asm__("x2") = c;
  register long fourth __asm__("x3") = d;
  __asm__ volatile("svc #0"
                   : "+r"(result)
                   : "r"(code), "r"(second), "r"(third), "r"(fourth)
                   : "memory");
  return result;
#else
#error "raw_call() is missing for this architecture"
#endif
}

template <typename T>
long raw_argument(T value) {
  if constexpr (std::is_pointer_v<T>) {
    return reinterpret_cast<long>(value);
  } else {
    return static_cast<long>(value);
  }
}

// A system call of up to four arguments that leaves errno alone: a negative result is the error.
// For processes that share memory with the guest while it goes on: they share its errno as well.
template <typename... Arguments>
long raw_call(long number, Arguments... arguments) {
  static_assert(sizeof...(Arguments) <= 4);
  const long all[5] = {raw_argument(arguments)..., 0};  // what is not given is 0
  return raw_call_of_four(number, all[0], all[1], all[2], all[3]);
}

}  // namespace caisson::guest
