// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// A sick program: three fibers, each of which holds a mutex and wants the next one's. It hangs.
//
//   what is wrong    the mutexes are not taken in one order: the third transfer takes them the other way round
//   what shows it    the line of DeadlockWatch, at once, with three stacks; a dump (kill -QUIT <pid>)
//   what to do       one order for all (by address, say), or std::scoped_lock(a, b), which takes both or none
//
// docs/diagnosing.md shows what the outputs look like.

#include <gflags/gflags.h>

#include <array>
#include <csignal>
#include <mutex>

#include "weft/observe/deadlock.h"
#include "weft/observe/dump_on_signal.h"
#include "weft/weft.h"

namespace {

struct Account {
  weft::FiberMutex mutex;
  int balance = 100;
};

[[gnu::noinline]] void Transfer(Account* from, Account* to, weft::FiberBarrier* all_have_one) {
  const std::scoped_lock lock_from(from->mutex);
  all_have_one->ArriveAndWait();  // As bad luck has it.
  const std::scoped_lock lock_to(to->mutex);
  from->balance -= 1;
  to->balance += 1;
}

}  // namespace

int main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, /*remove_flags=*/true);
  static_cast<void>(weft::DumpFibersOnSignal(SIGQUIT));
  weft::StartRuntime();
  const weft::DeadlockWatch watch({.every = std::chrono::milliseconds(100)});

  std::array<Account, 3> accounts;
  weft::FiberBarrier all_have_one(3);
  weft::Fiber first({.name = "first transfer"}, [&] { Transfer(&accounts[0], &accounts[1], &all_have_one); });
  weft::Fiber second({.name = "second transfer"}, [&] { Transfer(&accounts[1], &accounts[2], &all_have_one); });
  weft::Fiber third({.name = "third transfer"}, [&] { Transfer(&accounts[2], &accounts[0], &all_have_one); });
  for (weft::Fiber* transfer : {&first, &second, &third}) transfer->Join();

  return weft::TerminateRuntime() == 0 ? 0 : 1;
}
