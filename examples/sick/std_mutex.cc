// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// A sick program: a fiber suspends while it holds a std::mutex, and another fiber of its worker wants that. It hangs.
//
//   what is wrong    a std::mutex belongs to a thread: the worker waits for itself, and all its fibers with it
//   what shows it    the line of DeadlockWatch: fiber 'report' wants the std::mutex which that thread has locked
//                    itself, and fiber 'save' seems to hold it; a dump (kill -QUIT <pid>)
//   what to do       unlock it before whatever may wait, or take a FiberMutex
//
// docs/diagnosing.md shows what the outputs look like.

#include <gflags/gflags.h>

#include <csignal>
#include <mutex>

#include "weft/observe/deadlock.h"
#include "weft/observe/dump_on_signal.h"
#include "weft/weft.h"

namespace {

struct Table {
  std::mutex mutex;
  weft::FiberEvent disk_has_answered;
  int rows = 0;
};

[[gnu::noinline]] void Save(Table* table) {
  const std::unique_lock lock(table->mutex);
  table->disk_has_answered.Wait();
  table->rows = 0;
}

[[gnu::noinline]] void Report(Table* table) {
  const std::unique_lock lock(table->mutex);
  table->rows += 1;
}

}  // namespace

int main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, /*remove_flags=*/true);
  gflags::SetCommandLineOption("fiber_concurrency_hint", "1");  // All fibers have the same worker.
  static_cast<void>(weft::DumpFibersOnSignal(SIGQUIT));
  weft::StartRuntime();
  const weft::DeadlockWatch watch({.every = std::chrono::milliseconds(100)});

  Table table;
  weft::Fiber save({.name = "save"}, [&] { Save(&table); });
  weft::Fiber report({.name = "report"}, [&] { Report(&table); });
  weft::Fiber answer({.name = "answer"}, [&] { table.disk_has_answered.Set(); });  // It never gets the worker.
  for (weft::Fiber* fiber : {&save, &report, &answer}) fiber->Join();

  return weft::TerminateRuntime() == 0 ? 0 : 1;
}
