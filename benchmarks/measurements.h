#pragma once
#include "options.h"
#include "report.h"

// One function, one file, for each thing that is measured. Each adds its figures to the report.
namespace caisson::benchmarks {

// A command in a box that is there already, against the same command on the host.
void measure_exec(const Options& options, Report& report);

// A box for one command, against one run of a program that makes sandboxes.
void measure_lifecycle(const Options& options, Report& report);

// Commands a second in 1, 2 and 4 boxes, driven by one event loop thread.
void measure_throughput(const Options& options, Report& report);

// What a box costs that does nothing.
void measure_memory(const Options& options, Report& report);

// A change of what a living box is shown, against a new box.
void measure_mounts(const Options& options, Report& report);

// Commands, sessions and idle ones through a daemon, over REST.
void measure_rest(const Options& options, Report& report);

// Long-lived processes: the relay, the journal, and coming back after the daemon was killed.
void measure_processes(const Options& options, Report& report);

// Action RPC, through LangBot's own client, against LangBot's own runtime.
void measure_rpc(const Options& options, Report& report);

// Where the time of create + exec + destroy goes.
void trace_lifecycle(const Options& options, Report& report);

}  // namespace caisson::benchmarks
