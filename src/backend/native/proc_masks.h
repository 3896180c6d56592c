#pragma once
#include <string>
#include <vector>

// What of /proc a box does not see. A box has processes, a network and IPC of its own there, but
// most other files tell of the whole host: how it was booted, its devices, interrupts, locks. Those
// that ordinary programs read stay (`free`, `top`, `ps`, node and the JVM do not work without);
// everything else is masked, whatever this kernel and its modules show.
namespace caisson::backend::native {

// The names in /proc that are neither processes nor links, and that everybody may read.
std::vector<std::string> readable_proc_entries();

// The paths that are masked where such entries are. Pure.
std::vector<std::string> masked_proc_paths(const std::vector<std::string>& entries);

// The paths that stay visible and must not be written.
std::vector<std::string> read_only_proc_paths();

}  // namespace caisson::backend::native
