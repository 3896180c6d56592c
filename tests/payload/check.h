#pragma once
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace caisson::payload {

// `denied` and `ok` are what a box promises; `allowed` and `broken` are findings.
enum class Verdict { denied, allowed, ok, broken };

struct Outcome {
  Verdict verdict = Verdict::broken;
  std::string detail;
};

using Argument = const std::string&;

// One attempt at something that a box must refuse (or, with the prefix "ok_", must let happen). A
// probe is harmless by construction wherever it runs: it uses arguments that the kernel rejects
// after its permission check, opens without writing, or undoes what it made.
struct Check {
  std::string_view rows;  // the rows of the isolation table it proves, e.g. "I11 I12"
  std::string_view name;
  Outcome (*probe)(Argument);
};

// The checks of each group; `all_checks` joins them in the order of the table.
std::span<const Check> privilege_checks();
std::span<const Check> mount_checks();
std::span<const Check> storage_checks();
std::span<const Check> device_checks();
std::span<const Check> kernel_file_checks();
std::span<const Check> process_one_checks();
std::span<const Check> leak_checks();
std::span<const Check> network_checks();
std::span<const Check> kernel_surface_checks();
std::span<const Check> host_state_checks();
std::span<const Check> limit_checks();
std::span<const Check> work_checks();
std::vector<Check> all_checks();

std::string_view to_string(Verdict verdict);
bool is_expected(Verdict verdict);

Outcome denied(std::string detail);
Outcome allowed(std::string detail);
Outcome ok(std::string detail);
Outcome broken(std::string detail);

std::string errno_name(int error_number);  // "EPERM"

// What a system call that must be refused answered. EPERM, EACCES and ENOSYS are refusals, as are
// `also_denied`; any other errno means that the call got past the permission check: allowed.
Outcome judge(long result, std::initializer_list<int> also_denied = {});

// A file that must tell nothing: absent, forbidden, empty or a mask.
Outcome judge_readable(const std::string& path);

// A file that must not be opened, for reading or for writing (nothing is read or written).
Outcome judge_openable(const std::string& path, int flags);

// Runs the probe in a child, so that one the kernel kills is an answer too, and one that hangs
// ends.
Outcome run_supervised(const Check& check, Argument argument);

}  // namespace caisson::payload
