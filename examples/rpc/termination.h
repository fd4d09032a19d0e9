// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// TerminationSignals: for a program that runs until it is told to end. Its constructor blocks SIGTERM and SIGINT in
// this thread and those started later, and keeps them for Wait(). The main thread, before the runtime starts.
#ifndef WEFT_EXAMPLES_RPC_TERMINATION_H_
#define WEFT_EXAMPLES_RPC_TERMINATION_H_

#include <pthread.h>
#include <signal.h>
#include <time.h>

namespace weft::rpc {

class TerminationSignals {
 public:
  TerminationSignals() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGTERM);
    sigaddset(&set_, SIGINT);
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
  }

  // Until a signal comes.
  void Wait() const {
    int number = 0;
    sigwait(&set_, &number);
  }
  // Until a signal comes or the time is over. 0: no limit.
  void WaitFor(double seconds) const {
    if (seconds <= 0) return Wait();
    timespec left{};
    left.tv_sec = static_cast<time_t>(seconds);
    left.tv_nsec = static_cast<long>((seconds - static_cast<double>(left.tv_sec)) * 1e9);
    (void)sigtimedwait(&set_, nullptr, &left);
  }

 private:
  sigset_t set_;
};

}  // namespace weft::rpc

#endif  // WEFT_EXAMPLES_RPC_TERMINATION_H_
