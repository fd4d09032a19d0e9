// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/observe/dump/own_thread.h"

#include <exception>
#include <system_error>
#include <thread>

#include "weft/scheduling_group/worker/current_worker.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/wait/wait_queue.h"

namespace weft::observe {

void OnOwnThread(const std::function<void()>& f) {
  if (scheduling_group::CurrentFiber() == nullptr) return f();
  std::exception_ptr thrown;
  FiberEvent done;
  std::thread thread;
  try {
    thread = std::thread([&] {
      try {
        f();
      } catch (...) {
        thrown = std::current_exception();
      }
      done.Set();
    });
  } catch (const std::system_error&) {
    return f();
  }
  synchronization::WaitAccess::WaitUncancelled(done);
  thread.join();
  if (thrown != nullptr) std::rethrow_exception(thrown);
}

}  // namespace weft::observe
