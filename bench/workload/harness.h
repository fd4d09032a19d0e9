// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// What all workload programs share: flags, rounds, the watchdog and the lines they print.
//
// A workload is one function that does the work once (a round), checks its own result and reports one or more figures.
// Each workload runs in a process of its own (forked before any thread exists), so that it neither warms nor litters
// the next one's memory, and a hang or a crash costs one workload only. In that process the runtime starts once, the
// rounds follow one another, and the runtime stops.
//
// One line is printed for each figure:
//
//     <row> <figure> <value> <unit> workers=<n> groups=<n> best=<v> median=<v> rounds=<n> each=<v,v,..> runtime=<name>
//
// where <value> is the best round (lower is always better). Lines that begin with `#` are remarks.
//
// Invariants
//   HA1  A line is printed only after the workload has checked its result; a wrong one prints the reason and exits 1.
//   HA2  A workload that does not end within its limit is reported and aborted; the program goes on and exits 1.
#ifndef WEFT_BENCH_WORKLOAD_HARNESS_H_
#define WEFT_BENCH_WORKLOAD_HARNESS_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft::bench {

// One execution of a workload: what it is asked for and what it found.
class Round {
 public:
  Round(int workers, double scale) : workers_(workers), scale_(scale) {}

  int workers() const { return workers_; }

  // `count` of the definition, shortened by --scale and by `divisor`: a multiple of `multiple_of`, at least one of it.
  std::int64_t Scaled(std::int64_t count, std::int64_t multiple_of = 1, std::int64_t divisor = 1) const;

  // One figure of this round. Lower is better.
  void Report(std::string_view figure, double value, std::string_view unit);

  // A remark that is printed with the first round.
  void Remark(std::string text) { remarks_.push_back(std::move(text)); }

  struct Figure {
    std::string name;
    std::string unit;
    double value;
  };
  const std::vector<Figure>& figures() const { return figures_; }
  const std::vector<std::string>& remarks() const { return remarks_; }

 private:
  const int workers_;
  const double scale_;
  std::vector<Figure> figures_;
  std::vector<std::string> remarks_;
};

struct Workload {
  const char* name;     // What --workload selects.
  const char* row;      // The first word of its lines: several workloads may be one row of the table.
  void (*run)(Round&);  // On a plain thread of the program, the runtime is up.
  int rounds;           // Unless --rounds says otherwise.
  int limit_seconds;    // For all rounds together; --limit_factor multiplies it.
};

struct RuntimeUnderTest {
  const char* name;
  void (*start)(int workers, int groups);
  void (*stop)();
  std::vector<Workload> workloads;
};

// Ends the process with a message unless `condition` holds: a figure of a wrong result is worthless.
void Require(bool condition, std::string_view what);

// The body of main(): parses the flags, runs what they select, returns the exit status.
int RunWorkloads(int argc, char** argv, const std::vector<RuntimeUnderTest>& runtimes);

// Wall time since construction.
class Stopwatch {
 public:
  double Seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }
  double Milliseconds() const { return Seconds() * 1e3; }
  double NanosecondsPer(std::int64_t operations) const { return Seconds() * 1e9 / static_cast<double>(operations); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace weft::bench

#endif  // WEFT_BENCH_WORKLOAD_HARNESS_H_
