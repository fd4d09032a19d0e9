// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// The functions that libweft_hook.so stands before: the C library's, or those of a sanitizer or of another library that
// is loaded after it.
//
// dlsym() finds them when the library is loaded; a call that comes before (of a constructor, or of another library's)
// finds its own. dlsym() may allocate, and an allocator that is asked for the first time may read a file: a call inside
// of dlsym() goes to the kernel.
#ifndef WEFT_INTEROP_HOOK_REAL_CALLS_H_
#define WEFT_INTEROP_HOOK_REAL_CALLS_H_

#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>

namespace weft::hook {

// nullptr: the caller is inside of dlsym(). Ends the process if there is no such function.
void* FindRealCall(const char* name) noexcept;

template <class Function>
class RealCall;

template <class R, class... Arguments>
class RealCall<R(Arguments...)> {
  using Function = R(Arguments...);

 public:
  // `number`: of the system call. -1: none by the same arguments.
  constexpr RealCall(const char* name, long number) noexcept : name_(name), number_(number) {}

  R operator()(Arguments... arguments) noexcept {
    Function* function = function_.load(std::memory_order_relaxed);  // Code, which is there.
    if (function == nullptr) [[unlikely]] {
      function = Find();
      if (function == nullptr) return static_cast<R>(::syscall(number_, arguments...));
    }
    return function(arguments...);
  }

  Function* Find() noexcept {
    auto* const found = reinterpret_cast<Function*>(FindRealCall(name_));
    if (found != nullptr) function_.store(found, std::memory_order_relaxed);
    return found;
  }

 private:
  const char* const name_;
  const long number_;
  std::atomic<Function*> function_{nullptr};
};

#define WEFT_REAL_CALLS(X)                                                               \
  X(accept, int(int, sockaddr*, socklen_t*), -1)                                         \
  X(accept4, int(int, sockaddr*, socklen_t*, int), -1)                                   \
  X(clock_nanosleep, int(clockid_t, int, const timespec*, timespec*), -1)                \
  X(close, int(int), SYS_close)                                                          \
  X(connect, int(int, const sockaddr*, socklen_t), -1)                                   \
  X(dup2, int(int, int), -1)                                                             \
  X(dup3, int(int, int, int), -1)                                                        \
  X(epoll_pwait, int(int, epoll_event*, int, int, const sigset_t*), -1)                  \
  X(epoll_wait, int(int, epoll_event*, int, int), -1)                                    \
  X(getaddrinfo, int(const char*, const char*, const addrinfo*, addrinfo**), -1)         \
  X(nanosleep, int(const timespec*, timespec*), -1)                                      \
  X(poll, int(pollfd*, nfds_t, int), -1)                                                 \
  X(ppoll, int(pollfd*, nfds_t, const timespec*, const sigset_t*), -1)                   \
  X(pselect, int(int, fd_set*, fd_set*, fd_set*, const timespec*, const sigset_t*), -1)  \
  X(read, ssize_t(int, void*, std::size_t), SYS_read)                                    \
  X(readv, ssize_t(int, const iovec*, int), SYS_readv)                                   \
  X(recv, ssize_t(int, void*, std::size_t, int), -1)                                     \
  X(recvfrom, ssize_t(int, void*, std::size_t, int, sockaddr*, socklen_t*), -1)          \
  X(recvmsg, ssize_t(int, msghdr*, int), -1)                                             \
  X(select, int(int, fd_set*, fd_set*, fd_set*, timeval*), -1)                           \
  X(send, ssize_t(int, const void*, std::size_t, int), -1)                               \
  X(sendmsg, ssize_t(int, const msghdr*, int), -1)                                       \
  X(sendto, ssize_t(int, const void*, std::size_t, int, const sockaddr*, socklen_t), -1) \
  X(sleep, unsigned(unsigned), -1)                                                       \
  X(usleep, int(useconds_t), -1)                                                         \
  X(write, ssize_t(int, const void*, std::size_t), SYS_write)                            \
  X(writev, ssize_t(int, const iovec*, int), SYS_writev)

// real::read(...)
namespace real {
#define WEFT_DECLARE_REAL_CALL(name, type, number) extern constinit RealCall<type> name;
WEFT_REAL_CALLS(WEFT_DECLARE_REAL_CALL)
#undef WEFT_DECLARE_REAL_CALL
}  // namespace real

}  // namespace weft::hook

#endif  // WEFT_INTEROP_HOOK_REAL_CALLS_H_
