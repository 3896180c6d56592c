#pragma once
#include <cstddef>
#include <cstdint>

namespace caisson::journal {

// Memory of a mapped file. Whoever shortens the file takes its pages away, and the next access
// would end this process with SIGBUS. While it is guarded, such a page becomes one of plain memory,
// full of zeros, and the process goes on: what it stores there is lost with it.
class GuardedPages {
 public:
  GuardedPages(void* address, std::size_t size);
  GuardedPages(const GuardedPages&) = delete;
  GuardedPages& operator=(const GuardedPages&) = delete;
  ~GuardedPages();

  struct Range;

 private:
  Range& range_;
};

}  // namespace caisson::journal
