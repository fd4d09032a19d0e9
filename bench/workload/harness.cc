// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/bench/workload/harness.h"

#include <gflags/gflags.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>

DEFINE_string(workload, "all", "Names of workloads, separated by commas, or `all`.");
DEFINE_string(runtime, "all", "Names of runtimes, separated by commas, or `all`.");
DEFINE_int32(workers, 2, "Worker threads, over all groups.");
DEFINE_int32(groups, 1, "Scheduling groups the workers are divided into.");
DEFINE_int32(rounds, 0, "Rounds of each workload; 0: as many as suit it.");
DEFINE_double(scale, 1.0, "Part of the work to do: 0.01 for a smoke test. Figures are comparable at 1 only.");
DEFINE_double(limit_factor, 1.0, "Multiplies the time after which a workload counts as hung.");
DEFINE_bool(isolate, true, "Run each workload in a process of its own. Off: for debuggers and profilers.");
DEFINE_bool(backtrace_on_hang, false, "Let gdb print the stack of every thread of a workload that hangs.");

namespace weft::bench {

std::int64_t Round::Scaled(std::int64_t count, std::int64_t multiple_of, std::int64_t divisor) const {
  const double wanted = static_cast<double>(count) * scale_ / static_cast<double>(divisor);
  const auto multiples = static_cast<std::int64_t>(std::llround(wanted / static_cast<double>(multiple_of)));
  return std::max<std::int64_t>(multiples, 1) * multiple_of;
}

void Round::Report(std::string_view figure, double value, std::string_view unit) {
  figures_.push_back({std::string(figure), std::string(unit), value});
}

void Require(bool condition, std::string_view what) {
  if (condition) return;
  std::fflush(stdout);
  std::fprintf(stderr, "workload failed: it does not hold that %.*s\n", static_cast<int>(what.size()), what.data());
  // Not exit(): workers still run and would see destructors of static objects.
  std::_Exit(1);
}

namespace {

// Aborts the process unless it is destroyed within `limit`. Sleeps until then: an idle process stays idle.
class Watchdog {
 public:
  Watchdog(std::string what, std::chrono::duration<double> limit)
      : what_(std::move(what)), limit_(limit), thread_([this] { Watch(); }) {}

  ~Watchdog() {
    {
      std::scoped_lock lock(mutex_);
      done_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }

  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  void Watch() {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, limit_, [this] { return done_; })) return;
    std::fflush(stdout);
    std::fprintf(stderr, "workload hung: %s did not end within %.0f s\n", what_.c_str(), limit_.count());
    if (FLAGS_backtrace_on_hang) PrintBacktraces();
    std::abort();
  }

  static void PrintBacktraces() {
    const std::string command = "gdb -p " + std::to_string(getpid()) + " -batch -ex 'thread apply all bt 30' 1>&2";
    if (std::system(command.c_str()) != 0) std::fprintf(stderr, "gdb could not be run\n");
  }

  const std::string what_;
  const std::chrono::duration<double> limit_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::thread thread_;
};

bool Selected(const std::string& flag, std::string_view name) {
  if (flag == "all") return true;
  std::size_t begin = 0;
  while (begin <= flag.size()) {
    const std::size_t end = std::min(flag.find(',', begin), flag.size());
    if (std::string_view(flag).substr(begin, end - begin) == name) return true;
    begin = end + 1;
  }
  return false;
}

std::string FormatValue(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), std::fabs(value) >= 100 ? "%.0f" : "%.4g", value);
  return text;
}

void PrintFigure(const RuntimeUnderTest& runtime, const Workload& workload, const Round::Figure& figure,
                 const std::vector<double>& values) {
  std::string each;
  for (double value : values) {
    if (!each.empty()) each += ',';
    each += FormatValue(value);
  }
  std::vector<double> sorted = values;
  std::sort(sorted.begin(), sorted.end());
  const std::string best = FormatValue(sorted.front());
  const std::string median = FormatValue(sorted[sorted.size() / 2]);
  std::printf("%s %s %s %s workers=%d groups=%d best=%s median=%s rounds=%zu each=%s runtime=%s\n", workload.row,
              figure.name.c_str(), best.c_str(), figure.unit.c_str(), FLAGS_workers, FLAGS_groups, best.c_str(),
              median.c_str(), values.size(), each.c_str(), runtime.name);
}

// All rounds of one workload, in this process.
void RunOne(const RuntimeUnderTest& runtime, const Workload& workload) {
  const std::string what =
      std::string(workload.name) + " of " + runtime.name + " at " + std::to_string(FLAGS_workers) + " workers";
  Watchdog watchdog(what, std::chrono::duration<double>(workload.limit_seconds * FLAGS_limit_factor));

  runtime.start(FLAGS_workers, FLAGS_groups);
  const int rounds = FLAGS_rounds > 0 ? FLAGS_rounds : workload.rounds;
  std::vector<Round::Figure> figures;
  std::vector<std::vector<double>> values;
  for (int i = 0; i < rounds; ++i) {
    Round round(FLAGS_workers, FLAGS_scale);
    workload.run(round);
    if (i == 0) {
      figures = round.figures();
      values.resize(figures.size());
      for (const std::string& remark : round.remarks()) std::printf("# %s: %s\n", workload.name, remark.c_str());
    }
    Require(round.figures().size() == figures.size(), "every round reports the same figures");
    for (std::size_t f = 0; f < figures.size(); ++f) values[f].push_back(round.figures()[f].value);
  }
  for (std::size_t f = 0; f < figures.size(); ++f) PrintFigure(runtime, workload, figures[f], values[f]);
  std::fflush(stdout);
  runtime.stop();
}

// The same in a process of its own. Returns whether it went well.
bool RunOneIsolated(const RuntimeUnderTest& runtime, const Workload& workload) {
  std::fflush(stdout);
  const pid_t child = fork();
  Require(child >= 0, "a process can be forked");
  if (child == 0) {
    RunOne(runtime, workload);
    std::exit(0);  // Not _Exit(): errors in destructors of static objects must show.
  }
  int status = 0;
  Require(waitpid(child, &status, 0) == child, "the workload's process can be waited for");
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return true;
  std::fprintf(stderr, "workload failed: %s of %s at %d workers, %s %d\n", workload.name, runtime.name, FLAGS_workers,
               WIFSIGNALED(status) ? "signal" : "status", WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
  return false;
}

const Workload* Find(const RuntimeUnderTest& runtime, std::string_view name) {
  for (const Workload& workload : runtime.workloads) {
    if (workload.name == name) return &workload;
  }
  return nullptr;
}

std::vector<std::string> NamesInOrder(const std::vector<RuntimeUnderTest>& runtimes) {
  std::vector<std::string> names;
  for (const RuntimeUnderTest& runtime : runtimes) {
    for (const Workload& workload : runtime.workloads) {
      if (std::find(names.begin(), names.end(), workload.name) == names.end()) names.emplace_back(workload.name);
    }
  }
  return names;
}

}  // namespace

int RunWorkloads(int argc, char** argv, const std::vector<RuntimeUnderTest>& runtimes) {
  google::SetUsageMessage("runs workloads and prints one line for each figure; see harness.h for the form");
  google::ParseCommandLineFlags(&argc, &argv, true);

  // Workload by workload, so that figures to be compared are taken one right after the other.
  int selected = 0;
  int failed = 0;
  for (const std::string& name : NamesInOrder(runtimes)) {
    if (!Selected(FLAGS_workload, name)) continue;
    for (const RuntimeUnderTest& runtime : runtimes) {
      const Workload* workload = Selected(FLAGS_runtime, runtime.name) ? Find(runtime, name) : nullptr;
      if (workload == nullptr) continue;
      ++selected;
      if (!FLAGS_isolate) {
        RunOne(runtime, *workload);
      } else if (!RunOneIsolated(runtime, *workload)) {
        ++failed;
      }
    }
  }
  if (selected == 0) {
    std::fprintf(stderr, "nothing selected; workloads:");
    for (const std::string& name : NamesInOrder(runtimes)) std::fprintf(stderr, " %s", name.c_str());
    std::fprintf(stderr, "\n");
    return 2;
  }
  return failed == 0 ? 0 : 1;
}

}  // namespace weft::bench
