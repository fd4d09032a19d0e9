// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// A sick program: a notification comes between a look at the condition and the wait for it, and is lost. It hangs.
//
//   what is wrong    the consumer looks without the mutex that it waits with; so does the producer, which notifies
//   what shows it    the lines of DeadlockWatch: all fibers are asleep, the consumer in a condition variable that
//                    nobody is left to notify; a dump (kill -QUIT <pid>)
//   what to do       change the condition under the mutex, and wait with a predicate: wait(lock, [&] { return ... })
//
// docs/diagnosing.md shows what the outputs look like.

#include <gflags/gflags.h>

#include <atomic>
#include <csignal>
#include <mutex>

#include "weft/observe/deadlock.h"
#include "weft/observe/dump_on_signal.h"
#include "weft/weft.h"

namespace {

struct Mail {
  std::atomic<bool> has_come{false};
  weft::FiberMutex mutex;
  weft::FiberConditionVariable changed;
};

// Makes sure that it goes wrong.
struct BadLuck {
  weft::FiberEvent looked;
  weft::FiberEvent notified;
};

[[gnu::noinline]] void WaitForMail(Mail* mail, BadLuck* luck) {
  if (mail->has_come) return;
  luck->looked.Set();
  luck->notified.Wait();
  std::unique_lock lock(mail->mutex);
  mail->changed.wait(lock);
}

void Deliver(Mail* mail, BadLuck* luck) {
  luck->looked.Wait();
  mail->has_come = true;
  mail->changed.notify_one();
  luck->notified.Set();
}

}  // namespace

int main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, /*remove_flags=*/true);
  static_cast<void>(weft::DumpFibersOnSignal(SIGQUIT));
  weft::StartRuntime();
  const weft::DeadlockWatch watch({.every = std::chrono::milliseconds(100)});

  Mail mail;
  BadLuck luck;
  weft::Fiber consumer({.name = "consumer"}, [&] { WaitForMail(&mail, &luck); });
  weft::Fiber producer({.name = "producer"}, [&] { Deliver(&mail, &luck); });
  producer.Join();
  consumer.Join();

  return weft::TerminateRuntime() == 0 ? 0 : 1;
}
