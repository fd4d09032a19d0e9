// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// HookBlockingCalls: client libraries that block (libpq, hiredis, libcurl) park the fiber instead of its worker.
// Sample:
//     HookBlockingCalls hooked;                           // this fiber, until the end of the block
//     redisContext* redis = redisConnect("10.0.0.7", 6379);
//     void* reply = redisCommand(redis, "GET %s", "key");     // other fibers run meanwhile
//
// libweft_hook.so has functions of the C library by the same names. Where a fiber has asked for it, they try the call
// without waiting, and park the fiber until another try may succeed. Everywhere else they call the C library's.
//
// Off unless asked for: for a fiber by this class (what it starts is not asked for), for all fibers by
// HookBlockingCallsOfAllFibers() or by WEFT_HOOK=1 in the environment when the process starts.
//
// How a program gets it
//   linked       by the CMake target weft::hook, or pkg-config's weft-hook
//   preloaded    by LD_PRELOAD=libweft_hook.so. The program is linked with weft::hook_preloadable, or pkg-config's
//                weft-hook-preloadable. Without LD_PRELOAD it has no hooks, and all here does nothing.
//
// What is hooked
//   connect accept accept4 read readv write writev recv recvfrom recvmsg send sendto sendmsg
//   poll ppoll select pselect epoll_wait epoll_pwait sleep usleep nanosleep clock_nanosleep getaddrinfo
//   close dup2 dup3 (in all threads: a fiber whose hooked call waits for the descriptor gets ECANCELED)
// Not: what the C library calls inside of itself (stdio: fread(), fgets(), getline()), files, ppoll() and the like with
// a signal mask, recvmmsg(), sendmmsg(), sendfile(), gethostbyname(), waitpid(), flock(), locks of pthread.
//
// As the caller sees it
//   O_NONBLOCK      such a descriptor does not wait. The flag is not changed, but for the moment of a connect().
//   time-outs       SO_RCVTIMEO and SO_SNDTIMEO end a call as they do elsewhere: EAGAIN, connect() EINPROGRESS.
//   cancellation    a call that would wait fails with ECANCELED, not with EINTR: libraries try again after EINTR, and
//                   the scope would still be cancelled. getaddrinfo() says EAI_SYSTEM. No exception passes a library.
//                   The fiber's next wait of Weft's own throws, as always (sync/cancel_scope.h).
//   signals         none ends a parked call, so there is no EINTR. A handler may make hooked calls that need not wait.
//   fork()          the child of a plain thread may start a runtime, and hook in it; the child of a fiber has no hooks.
//   close()         of a descriptor for which another fiber's call waits: that call fails with ECANCELED.
//   errno           see below
//
// What can go wrong, as hooks cannot know what a library assumes
//   locks           a library that makes the call under a pthread_mutex keeps it while the fiber is parked: other
//                   fibers that want it block their workers. Hence stdio is not hooked. libpq, hiredis and libcurl
//                   hold none.
//   errno           the fiber may go on on another thread. Code that used errno before the call may then read that of
//                   the former thread (context/switch_safe_errno.h). It matters where the call fails after a wait.
//                   Debian's libpq asks anew where it waits; hiredis may name a wrong reason for a connect() that ends
//                   by its time-out. Fibers of a FiberLoop stay on their thread.
//   thread_locals   the same. OpenSSL's queue of errors is one: a blocking socket below SSL_read() is not for hooks.
//                   libpq and libcurl wait outside of it.
//   shared pipes    two readers of one blocking pipe, or of one listener in two processes: who comes too late blocks
//                   its worker. (Sockets have no such gap, nor has a listener within a process.)
//   small stacks    a hooked call needs up to 1 KiB of stack more than without; the library may need much.
// FiberBlocking() (io/fiber_blocking.h) has none of these, and a thread for each call: docs/how-to/databases.md.
//
// With sanitizers: AddressSanitizer's functions call the hooks, and both work. ThreadSanitizer does not understand that
// other fibers run inside of poll(), epoll_wait() and sleeps, and reports races that are none: no hooks there. It also
// takes close() for a race with another fiber's wait for the descriptor.
//
// Who may call: any fiber and any thread; in a plain thread nothing here has an effect. Destroy a HookBlockingCalls in
// the fiber that made it. How it works: interop/hook/fiber_calls.h.
#ifndef WEFT_INTEROP_HOOK_H_
#define WEFT_INTEROP_HOOK_H_

#include <cstdint>
#include <string_view>
#include <vector>

namespace weft {

// While it lives, blocking calls of the fiber park it; or do not (false), where all fibers' calls are hooked, or in a
// block of another one. The innermost one counts.
class [[nodiscard]] HookBlockingCalls {
 public:
  // From here on. May throw std::bad_alloc: the fiber may need a table of FiberLocals.
  explicit HookBlockingCalls(bool hooked = true);
  // As it was before.
  ~HookBlockingCalls();
  HookBlockingCalls(const HookBlockingCalls&) = delete;
  HookBlockingCalls& operator=(const HookBlockingCalls&) = delete;

 private:
  std::uint8_t outer_;
};

// For fibers in no block of a HookBlockingCalls, from their next call on.
void HookBlockingCallsOfAllFibers(bool hooked) noexcept;

// Whether libweft_hook.so is there: linked or preloaded.
[[nodiscard]] bool CanHookBlockingCalls() noexcept;

// Whether the caller's blocking calls park it. False in a plain thread.
[[nodiscard]] bool BlockingCallsAreHooked() noexcept;

// What the hooks have done so far.
struct HookedCallCount {
  std::string_view name;    // of the C library's function
  std::uint64_t calls = 0;  // by fibers whose calls are hooked
  std::uint64_t waits = 0;  // how many of them have parked, or went to the pool of FiberBlocking()
};

// One for each function that is hooked for fibers. Empty: the library is not there. In the process, since it began.
[[nodiscard]] std::vector<HookedCallCount> GetHookedCallCounts();

}  // namespace weft

#endif  // WEFT_INTEROP_HOOK_H_
