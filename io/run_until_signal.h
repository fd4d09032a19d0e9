// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// RunUntilSignal: what main() of a server waits for: SIGTERM (a supervisor ends it) or SIGINT (Ctrl-C).
// Sample:
//     io::TcpListener listener;
//     const std::error_code error = listener.Listen(io::SocketAddress::AnyIpv4(8080));
//     if (error) throw std::system_error(error, "port 8080");
//     std::optional<io::TcpServer> server;
//     const int signal = io::RunUntilSignal([&] {
//       StartRuntime();
//       server.emplace(std::move(listener), [](io::TcpConnection& connection) { ... });
//       return server->Start();
//     });
//     server->Stop(5s);                            // drains
//     server.reset();
//     TerminateRuntime();
//     return signal < 0 ? 1 : 0;
//
// How it works. It blocks both signals in the calling thread, calls `start`, and takes the first that comes by
// sigtimedwait(2), so no handler runs. The threads that `start` makes inherit the mask; one made before would get the
// signal. So call it in the main thread, before any other is started, the runtime's included.
//
// Both stay blocked when it returns a signal or 0, so that a second one (from a wrapper that passes on what its
// children get, too) does not cut short the stop that follows. Call UnblockEndSignals() where a second one shall end
// the process, at the latest before work that has no deadline. Programs that the process starts meanwhile inherit the
// mask; posix_spawnattr_setsigmask() gives them another. When `start` fails or throws, the mask is as before.
#ifndef WEFT_IO_RUN_UNTIL_SIGNAL_H_
#define WEFT_IO_RUN_UNTIL_SIGNAL_H_

#include <utility>

#include "weft/base/deadline.h"

namespace weft::io {

// The two steps, for a program that does more between them. The first returns what UnblockEndSignals() is to undo.
struct BlockedEndSignals {
  bool interrupt = false;  // SIGINT was not blocked before
  bool terminate = false;  // SIGTERM
};
// By the calling thread, before others are started: SIGINT and SIGTERM are blocked from then on.
BlockedEndSignals BlockEndSignals() noexcept;
// The calling thread, which should be the same. A signal then has its default action, also one that has come meanwhile.
// The threads that were started go on to block both.
void UnblockEndSignals(BlockedEndSignals blocked = {.interrupt = true, .terminate = true}) noexcept;
// A plain thread that blocks them. Returns the signal; 0: the deadline has passed. Where the system refuses
// sigtimedwait(2) it waits by signalfd(2). If it refuses that, too, a line says so; both signals are then unblocked, so
// that they end the process.
int WaitForEndSignal(Deadline deadline = {}) noexcept;

// Returns the signal; 0: the deadline has passed; -1: start() returned false.
template <class Start>
int RunUntilSignal(Start&& start, Deadline deadline = {}) {
  struct Undo {
    ~Undo() {
      if (undo) UnblockEndSignals(blocked);
    }
    const BlockedEndSignals blocked = BlockEndSignals();
    bool undo = true;
  } mask;
  if (!std::forward<Start>(start)()) return -1;
  mask.undo = false;
  return WaitForEndSignal(deadline);
}

}  // namespace weft::io

#endif  // WEFT_IO_RUN_UNTIL_SIGNAL_H_
