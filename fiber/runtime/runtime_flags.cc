// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/runtime/runtime_flags.h"

#include <fnmatch.h>
#include <gflags/gflags.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/base/report/log.h"
#include "weft/version.h"

DECLARE_bool(helpshort);
DECLARE_bool(version);

DEFINE_int64(fiber_concurrency_hint, 0,
             "Workers in all; 0 = one per CPU this process may use, cut by the cgroup's CPU quota."
             " In 0..4096.");
DEFINE_string(fiber_groups, "",
              "Scheduling groups by name, with their workers, as in latency:6,batch:2, which do not steal from each "
              "other; batch:2@6,7 gives CPUs, batch:2:shares=latency lets the two steal; empty = none.");
DEFINE_int64(fiber_scheduling_group_size, 0,
             "At most so many workers per scheduling group, up to 64; 0 = planned from the machine, 8 to 15."
             " In 0..64.");
DEFINE_string(
    fiber_numa_aware, "auto",
    "No scheduling group spans NUMA nodes: auto = as few nodes as needed, on = all nodes; off = nodes do not count.");
DEFINE_string(fiber_worker_accessible_cpus, "",
              "CPUs that workers may use, as in 0-4,6,7; empty = all the process may use.");
DEFINE_bool(fiber_worker_disallow_cpu_migration, false,
            "Bind each worker to its planned CPU instead of its group's CPUs.");
DEFINE_string(
    fiber_scheduling_name, "v1",
    "The scheduling policy: v1 = one queue per group, fair, shortest delay; v2 = a queue per worker, for computation.");
DEFINE_int64(fiber_work_stealing_ratio, 16,
             "An idle worker tries to steal from another group of its NUMA node on every N-th search (steal_every_n), "
             "before it sleeps, and when one whose workers are all busy requests it; 0 = never."
             " In 0..1000000.");
DEFINE_int64(fiber_cross_numa_work_stealing_ratio, -1,
             "The same for groups of other NUMA nodes; 0 = never; -1 = by distance within a socket, never across."
             " In -1..1000000.");
DEFINE_int64(fiber_run_queue_size, 131072,
             "Slots in each of a group's two rings of ready fibers (woken ones, and all others); a power of two."
             " In 16..16777216.");
DEFINE_int64(fiber_stack_size, 131072,
             "Bytes of a fiber's stack, rounded up to whole pages."
             " In 16384..1073741824.");
DEFINE_bool(fiber_stack_enable_guard_page, true, "Put a guard below each fiber's stack.");
DEFINE_int64(fiber_stack_guard_size, 65536,
             "Bytes of that guard at least: larger frames can jump over it."
             " In 4096..16777216.");
DEFINE_int64(fiber_stack_pool_size, 1024,
             "Free stacks a group keeps warm when things have gone quiet."
             " In 0..67108864.");
DEFINE_int64(fiber_record_stack_every, 0,
             "Look how much is used of each N-th stack that is taken from the pool; 0 = never."
             " In 0..1000000.");
DEFINE_int64(fiber_blocking_threads, 64,
             "Threads that run FiberBlocking calls, at most; made when needed."
             " In 1..4096.");
DEFINE_int64(fiber_blocking_queue_size, 1024,
             "FiberBlocking calls that wait for a thread, at most; further callers wait for room."
             " In 1..16777216.");
DEFINE_int64(fiber_blocking_idle_timeout_ms, 60000,
             "How long a thread for FiberBlocking calls has nothing to do before it ends."
             " In ms, 0..86400000.");
DEFINE_string(fiber_topology, "",
              "The machine to plan for: empty = this one, else an hwloc synthetic string or an XML file.");
DEFINE_int64(fiber_start_timeout_ms, 2000,
             "How long a plain thread that starts a fiber waits for room when too many are queued."
             " In ms, 0..86400000.");
DEFINE_int64(fiber_terminate_timeout_ms, 5000,
             "How long TerminateRuntime waits for fibers to end."
             " In ms, 0..86400000.");
DEFINE_int64(fiber_limit_ready_wait_ms, 0,
             "Refuse new work that asks (fiber_limiter.h) while ready fibers keep waiting longer for a worker; 0 = off."
             " In ms, 0..60000.");
DEFINE_int64(fiber_limit_fibers, 0,
             "Refuse new work that asks while more fibers are alive; 0 = off."
             " In 0..1000000000.");
DEFINE_int64(
    fiber_stall_warning_ms, 1000,
    "Warn when fibers are ready and no worker of their group has switched for this long, or timers are so late,"
    " or all workers of another group sleep that might help, or ready fibers wait five times as long; 0 = off."
    " In ms, 0..86400000.");
DEFINE_int64(fiber_slice_warning_ms, 0,
             "Warn, at most once a second, of a fiber that runs longer than this without suspending; 0 = off."
             " In ms, 0..86400000.");
DEFINE_int64(fiber_slice_error_ms, 0,
             "Log an error, once each time, when a fiber runs longer than this without suspending; 0 = off."
             " In ms, 0..86400000.");
DEFINE_string(fiber_dump_signal, "",
              "At this signal, as in SIGUSR2, write what every fiber does to stderr; empty = at none.");
DEFINE_bool(fiber_dump_on_crash, true, "Write it, too, when the process dies of a check, an exception or a fault.");
DEFINE_string(fiber_recorder, "sampled",
              "What the flight recorder writes down: off, sampled or full = each switch and each wake.");

namespace weft::fiber {

namespace {

// --- --helpshort and --version ---

struct Group {
  const char* name;
  std::initializer_list<const char*> flags;  // without "fiber_"
};

// In the order of RuntimeOptions where possible; tests/fiber/runtime_flags_test.cc: each flag is in one group.
constexpr Group kGroups[] = {
    {"workers and scheduling groups",
     {"concurrency_hint", "groups", "scheduling_group_size", "numa_aware", "worker_accessible_cpus",
      "worker_disallow_cpu_migration", "topology"}},
    {"scheduling", {"scheduling_name", "work_stealing_ratio", "cross_numa_work_stealing_ratio", "run_queue_size"}},
    {"stacks", {"stack_size", "stack_enable_guard_page", "stack_guard_size", "stack_pool_size", "record_stack_every"}},
    {"input, output and blocking calls", {"blocking_threads", "blocking_queue_size", "blocking_idle_timeout_ms"}},
    {"start, end and limits",
     {"start_timeout_ms", "terminate_timeout_ms", "limit_ready_wait_ms", "limit_fibers", "stall_warning_ms",
      "slice_warning_ms", "slice_error_ms"}},
    {"dumps and recordings", {"dump_signal", "dump_on_crash", "recorder"}},
};

// The flags by group, each with its meaning, type and default, as gflags prints them.
std::string DescribeFlags() {
  std::string text;
  for (const Group& group : kGroups) {
    text.append("\n  Flags of Weft: ").append(group.name).append(":\n");
    for (const char* name : group.flags) {
      gflags::CommandLineFlagInfo info;
      if (gflags::GetCommandLineFlagInfo((std::string("fiber_") + name).c_str(), &info)) {
        text.append(gflags::DescribeOneFlag(info));
      }
    }
  }
  return text;
}

// gflags checks values twice.
bool flags_follow = false;
bool version_follows = false;

void PrintFlags() { std::fputs(("\n  Weft " WEFT_VERSION "\n" + DescribeFlags()).c_str(), stdout); }
void PrintVersion() { std::fputs("Weft " WEFT_VERSION "\n", stdout); }

bool IsHelpWanted(const char* /*flag*/, bool value) {
  if (value && !flags_follow) flags_follow = std::atexit(&PrintFlags) == 0;
  return true;
}

bool IsVersionWanted(const char* /*flag*/, bool value) {
  if (value && !version_follows) version_follows = std::atexit(&PrintVersion) == 0;
  return true;
}

void InstallFlagHelp() {
  gflags::CommandLineFlagInfo info;
  // Linked statically, gflags may define its own flags later than this: then they stay unchanged.
  if (!gflags::GetCommandLineFlagInfo("helpshort", &info) || !gflags::GetCommandLineFlagInfo("version", &info)) return;
  gflags::RegisterFlagValidator(&FLAGS_helpshort, &IsHelpWanted);
  gflags::RegisterFlagValidator(&FLAGS_version, &IsVersionWanted);
}

// Static constructors of other files may run before those of the flags above.
constinit bool flags_are_defined = false;
struct FlagsAreDefined {
  FlagsAreDefined() {
    flags_are_defined = true;
    InstallFlagHelp();
  }
};
[[maybe_unused]] const FlagsAreDefined after_the_flags;

}  // namespace

void ParseFlags(int* argc, char*** argv) { gflags::ParseCommandLineFlags(argc, argv, /*remove_flags=*/true); }

namespace {

std::optional<RecorderLevel> ParseRecorderLevel(const std::string& text) {
  if (text == "off") return RecorderLevel::kOff;
  if (text == "sampled") return RecorderLevel::kSampled;
  if (text == "full") return RecorderLevel::kFull;
  return std::nullopt;
}

}  // namespace

std::optional<std::string> ReadFlags(RuntimeOptions* options) {
  if (!flags_are_defined) {
    return "the flags are not defined yet, in a static constructor that runs before theirs: StartRuntime() belongs in "
           "main(), or takes RuntimeOptions";
  }
  const std::optional<NumaAware> numa_aware = ParseNumaAware(FLAGS_fiber_numa_aware);
  if (!numa_aware.has_value()) {
    return "--fiber_numa_aware=" + FLAGS_fiber_numa_aware + ": must be auto, on or off";
  }
  const std::optional<RecorderLevel> recorder = ParseRecorderLevel(FLAGS_fiber_recorder);
  if (!recorder.has_value()) {
    return "--fiber_recorder=" + FLAGS_fiber_recorder + ": must be off, sampled or full";
  }
  options->concurrency_hint = FLAGS_fiber_concurrency_hint;
  options->groups = FLAGS_fiber_groups;
  options->scheduling_group_size = FLAGS_fiber_scheduling_group_size;
  options->numa_aware = *numa_aware;
  options->worker_accessible_cpus = FLAGS_fiber_worker_accessible_cpus;
  options->worker_disallow_cpu_migration = FLAGS_fiber_worker_disallow_cpu_migration;
  options->scheduling_name = FLAGS_fiber_scheduling_name;
  options->work_stealing_ratio = FLAGS_fiber_work_stealing_ratio;
  options->cross_numa_work_stealing_ratio = FLAGS_fiber_cross_numa_work_stealing_ratio;
  options->run_queue_size = FLAGS_fiber_run_queue_size;
  options->stack_size = FLAGS_fiber_stack_size;
  options->stack_enable_guard_page = FLAGS_fiber_stack_enable_guard_page;
  options->stack_guard_size = FLAGS_fiber_stack_guard_size;
  options->stack_pool_size = FLAGS_fiber_stack_pool_size;
  options->record_stack_every = FLAGS_fiber_record_stack_every;
  options->blocking_threads = FLAGS_fiber_blocking_threads;
  options->blocking_queue_size = FLAGS_fiber_blocking_queue_size;
  options->blocking_idle_timeout = std::chrono::milliseconds(FLAGS_fiber_blocking_idle_timeout_ms);
  options->topology = FLAGS_fiber_topology;
  options->start_timeout = std::chrono::milliseconds(FLAGS_fiber_start_timeout_ms);
  options->terminate_timeout = std::chrono::milliseconds(FLAGS_fiber_terminate_timeout_ms);
  options->limit_ready_wait = std::chrono::milliseconds(FLAGS_fiber_limit_ready_wait_ms);
  options->limit_fibers = FLAGS_fiber_limit_fibers;
  options->stall_warning = std::chrono::milliseconds(FLAGS_fiber_stall_warning_ms);
  options->slice_warning = std::chrono::milliseconds(FLAGS_fiber_slice_warning_ms);
  options->slice_error = std::chrono::milliseconds(FLAGS_fiber_slice_error_ms);
  options->dump_signal = FLAGS_fiber_dump_signal;
  options->dump_on_crash = FLAGS_fiber_dump_on_crash;
  options->recorder = *recorder;
  return std::nullopt;
}

namespace {

// --- CheckFlagFiles() ---
//
// A flag file of gflags has comments (#), empty lines, flags (-name or --name, =value), and lines with patterns of
// program names: the lines that follow apply to these programs only.

// Stops files that include each other.
constexpr int kDeepest = 16;

using Refusal = std::optional<std::string>;

bool IsFlag(const std::string& name, gflags::CommandLineFlagInfo* info) {
  return gflags::GetCommandLineFlagInfo(name.c_str(), info);
}

std::vector<std::string> Split(std::string_view list, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream{std::string(list)};
  for (std::string part; std::getline(stream, part, separator);) {
    if (!part.empty()) parts.push_back(part);
  }
  return parts;
}

bool IsThisProgram(const std::string& pattern) {
  return fnmatch(pattern.c_str(), gflags::ProgramInvocationName(), FNM_PATHNAME) == 0 ||
         fnmatch(pattern.c_str(), gflags::ProgramInvocationShortName(), FNM_PATHNAME) == 0;
}

class Reader {
 public:
  Refusal Check(const std::string& path, int depth) {
    if (depth > kDeepest) return base::StrCat(path, ": flag files name each other more than ", kDeepest, " deep");
    std::ifstream file(path);
    if (!file) return base::StrCat(path, ": the flag file cannot be read");
    bool counts = true;  // for this program
    bool in_names = false;
    int number = 0;
    for (std::string line; std::getline(file, line);) {
      ++number;
      const std::size_t begin = line.find_first_not_of(" \t\r");
      if (begin == std::string::npos || line[begin] == '#') continue;
      line = line.substr(begin, line.find_last_not_of(" \t\r") + 1 - begin);
      Refusal what;
      if (line[0] == '-') {
        in_names = false;
        if (counts) what = CheckFlag(line, depth);
      } else {
        if (!in_names) counts = false;
        in_names = true;
        what = CheckNames(line, &counts);
      }
      if (!what.has_value()) continue;
      return what->starts_with('\0') ? what->substr(1) : base::StrCat(path, ":", number, ": ", *what);
    }
    return std::nullopt;
  }

 private:
  Refusal CheckFlag(const std::string& line, int depth) {
    const std::size_t dashes = line.starts_with("--") ? 2 : 1;
    const std::size_t equals = line.find('=');
    const bool has_value = equals != std::string::npos;
    const std::string name = line.substr(dashes, has_value ? equals - dashes : std::string::npos);
    const std::string value = has_value ? line.substr(equals + 1) : "";
    if (name == "undefok") {
      for (const std::string& part : Split(value, ',')) may_be_unknown_.insert(part);
    }
    if (name == "flagfile") {
      for (const std::string& path : Split(value, ',')) {
        // It says where by itself.
        if (Refusal what = Check(path, depth + 1)) return std::string(1, '\0') + *what;
      }
    }
    gflags::CommandLineFlagInfo info;
    if (name.starts_with("no") && IsFlag(name.substr(2), &info) && info.type == "bool" && !has_value) {
      return std::nullopt;
    }
    if (!IsFlag(name, &info)) {
      if (may_be_unknown_.contains(name)) return std::nullopt;
      return base::StrCat("unknown flag --", name);
    }
    if (!has_value && info.type != "bool") return base::StrCat("--", name, " has no value: --", name, "=<value>");
    return std::nullopt;
  }

  // gflags would take a flag without dashes for a program, and apply all that follows to that one.
  static Refusal CheckNames(const std::string& line, bool* counts) {
    std::istringstream stream(line);
    for (std::string name; stream >> name;) {
      gflags::CommandLineFlagInfo info;
      if (name.find('=') != std::string::npos || IsFlag(name, &info)) {
        return base::StrCat("\"", line, "\" is no flag: a flag begins with --");
      }
      if (IsThisProgram(name)) *counts = true;
    }
    return std::nullopt;
  }

  std::set<std::string> may_be_unknown_;
};

}  // namespace

std::optional<std::string> CheckFlagFile(const std::string& path) { return Reader().Check(path, 0); }

std::optional<std::string> CheckFlagFiles() {
  std::set<std::string> paths;
  const std::vector<std::string>& arguments = gflags::GetArgvs();
  for (std::size_t i = 1; i < arguments.size() && arguments[i] != "--"; ++i) {
    std::string_view argument = arguments[i];
    if (!argument.starts_with('-')) continue;
    argument.remove_prefix(argument.starts_with("--") ? 2 : 1);
    std::string_view list;
    if (argument.starts_with("flagfile=")) list = argument.substr(9);
    if (argument == "flagfile" && i + 1 < arguments.size()) list = arguments[i + 1];
    for (std::string& path : Split(list, ',')) paths.insert(std::move(path));
  }
  for (const std::string& path : paths) {
    if (Refusal what = CheckFlagFile(path)) return what;
  }
  return std::nullopt;
}

}  // namespace weft::fiber
