#include "journal/lost_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <mutex>

namespace caisson::journal {

// Ranges form a list that only grows, by what is unused first: a signal handler may be reading it.
struct GuardedPages::Range {
  std::atomic<bool> used{true};
  std::atomic<std::uintptr_t> begin{0};
  std::atomic<std::size_t> size{0};
  Range* next = nullptr;
};

namespace {

std::atomic<GuardedPages::Range*> ranges{nullptr};
struct sigaction before {};
std::uintptr_t page_size = 0;

bool is_guarded(std::uintptr_t address) {
  for (const auto* range = ranges.load(); range != nullptr; range = range->next) {
    const std::uintptr_t begin = range->begin.load();
    if (address >= begin && address - begin < range->size.load()) return true;
  }
  return false;
}

void replace_page(int signal, siginfo_t* info, void* context) {
  const int saved = errno;
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  void* const page = reinterpret_cast<void*>(address & ~(page_size - 1));  // NOLINT: a number it is
  if (is_guarded(address) && ::mmap(page, page_size, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == page) {
    errno = saved;
    return;
  }
  if ((before.sa_flags & SA_SIGINFO) != 0 && before.sa_sigaction != nullptr) {
    return before.sa_sigaction(signal, info, context);
  }
  // The same access raises it again, and then ends the process.
  ::signal(SIGBUS, SIG_DFL);
}

void install() {
  page_size = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  struct sigaction action {};
  action.sa_sigaction = replace_page;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, &before);
}

GuardedPages::Range& claim() {
  for (auto* range = ranges.load(); range != nullptr; range = range->next) {
    if (!range->used.exchange(true)) return *range;
  }
  auto* const range = new GuardedPages::Range;
  range->next = ranges.load();
  while (!ranges.compare_exchange_weak(range->next, range)) {
  }
  return *range;
}

}  // namespace

GuardedPages::GuardedPages(void* address, std::size_t size) : range_(claim()) {
  static std::once_flag installed;
  std::call_once(installed, install);
  range_.size = size;
  range_.begin = reinterpret_cast<std::uintptr_t>(address);
}

GuardedPages::~GuardedPages() {
  range_.size = 0;
  range_.begin = 0;
  range_.used = false;
}

}  // namespace caisson::journal
