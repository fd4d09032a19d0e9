// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Run(): what main() does: flags, runtime, a fiber, signals, the end.
// Sample:
//   int main(int argc, char** argv) {
//     return weft::Run(argc, argv, [] {                          // SIGINT or SIGTERM cancels it
//       io::TcpListener listener;
//       const std::error_code error = listener.Listen(io::SocketAddress::AnyIpv4(8080));
//       if (error) throw std::system_error(error, "port 8080");  // it is logged
//       FiberScope clients;                                      // ends with the function
//       io::TcpStream client;
//       while (!listener.Accept(&client)) {
//         static_cast<void>(clients.Spawn([client = std::move(client)]() mutable {
//           try {
//             Serve(std::move(client));
//           } catch (const std::exception& failure) {            // else it would cancel all clients, also later ones
//             std::cerr << "a client: " << failure.what() << '\n';
//           }
//         }));
//       }
//       return 0;
//     });
//   }
//
// Sample:
//   int main(int argc, char** argv) {
//     return weft::Run(argc, argv, [](EndSignal& end) {          // waits for the signal itself, and drains
//       io::TcpServer server(Listening(), &ServeConnection);
//       if (!server.Start()) return 1;
//       end.Wait();
//       server.Stop(5s);
//       return 0;
//     });
//   }
//
// Run() parses the command line (gflags; --help ends the process), starts the runtime as the flags say, calls f in a
// fiber, waits for its end, ends the runtime (TerminateRuntime() in fiber/runtime.h), and returns the exit status:
//   what f returns, an int, or 0 if it returns nothing; 0 if the signal has cancelled f;
//   1 if an exception has left f (its what() is logged), and if f says 0 but fibers have not finished.
// Afterwards argc and argv hold what is no flag, after the program's name. They are changed before f is called.
//
// Signals. f() runs in a CancelScope (sync/cancel_scope.h), which the first SIGINT or SIGTERM cancels. f(EndSignal&) is
// not cancelled. After the first signal each SIGINT has its own action: Ctrl-C twice ends the process at once, and so
// does one that a wrapper passes on beside the terminal's. Each SIGTERM after the first signal is dropped, because
// supervisors and wrappers may both send it. A signal that is ignored when Run() is called stays ignored, such as
// SIGINT in a job that a script has started by `&`.
//
// No handler runs: the calling thread waits for f's end and, by signalfd(2), for the signals. All threads of the
// runtime block both, and so do programs that they start. A thread that was made before Run() and does not block them
// would get the signal. When f has ended without a signal, both have their actions again; otherwise SIGTERM stays
// blocked. Where the system refuses signalfd(2) a line says so, and the signals end the process as if Run() were not
// there.
//
// Who may call: main(), or another plain thread of a process that has no other thread with these signals unblocked,
// while no runtime runs; in a fiber, or beside a runtime, it ends the process with a line. It blocks the thread.
// Memory ordering: what the thread did before is visible to f, and what f did to the thread. Lifetime: the EndSignal
// lives until f has ended.
// Errors: what StartRuntime() does with flags that cannot be, Run() does, too. If the runtime refuses the fiber (there
// is no memory for its stack), the process ends with a line.
#ifndef WEFT_IO_RUN_H_
#define WEFT_IO_RUN_H_

#include <atomic>
#include <type_traits>

#include "weft/base/deadline.h"
#include "weft/sync/fiber_event.h"

namespace weft {

namespace run_internal {
class Main;
}

// The signal that asks the program to end. Any fiber and any thread; for Select(): OnSet(end.event(), ...).
class EndSignal {
 public:
  EndSignal(const EndSignal&) = delete;
  EndSignal& operator=(const EndSignal&) = delete;

  // Returns SIGINT or SIGTERM. May switch (a thread: block), and is a cancellation point.
  int Wait();
  // 0: none came in time.
  [[nodiscard]] int Wait(Deadline deadline);
  // 0: none has come.
  [[nodiscard]] int signal() const noexcept;
  // Is set when it has come. To wait for only: after a Set() by anybody else, Wait() says 0.
  FiberEvent& event() noexcept { return event_; }

 private:
  friend class run_internal::Main;
  EndSignal() = default;

  std::atomic<int> signal_{0};
  FiberEvent event_;
};

namespace run_internal {

// f is `body`'s. `cancels`: by the signal.
int Run(int& argc, char**& argv, int (*body)(void* f, EndSignal& end), void* f, bool cancels);

// How f is called.
template <class F>
int Call(F& f, [[maybe_unused]] EndSignal& end) {
  const auto call = [&]() -> decltype(auto) {
    if constexpr (std::is_invocable_v<F&, EndSignal&>) {
      return f(end);
    } else {
      return f();
    }
  };
  using Result = decltype(call());
  static_assert(std::is_void_v<Result> || std::is_same_v<Result, int>, "Run: f returns an int, or nothing");
  if constexpr (std::is_void_v<Result>) {
    call();
    return 0;
  } else {
    return call();
  }
}

}  // namespace run_internal

template <class F>
[[nodiscard]] int Run(int& argc, char**& argv, F&& f) {
  auto body = [&f](EndSignal& end) { return run_internal::Call(f, end); };
  const auto call = [](void* the_body, EndSignal& end) { return (*static_cast<decltype(body)*>(the_body))(end); };
  return run_internal::Run(argc, argv, call, &body, !std::is_invocable_v<F&, EndSignal&>);
}

}  // namespace weft

#endif  // WEFT_IO_RUN_H_
