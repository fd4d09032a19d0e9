// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Hooks: connect accept accept4 recv recvfrom recvmsg send sendto sendmsg.

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>

#include <cstddef>

#include "weft/interop/hook/fiber_calls.h"
#include "weft/interop/hook/hooked_call.h"
#include "weft/interop/hook/real_calls.h"
#include "weft/interop/hook/socket_transfer.h"

namespace weft::hook {
namespace {

// ---- connect ----

int ErrorOfSocket(int fd) noexcept {
  int error = 0;
  socklen_t size = sizeof(error);
  return ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : LastErrno();
}

// connect() has no MSG_DONTWAIT. So for this one system call the flag is set; nobody else uses a socket that is yet to
// be connected.
int StartConnect(int fd, const sockaddr* to, socklen_t length) noexcept {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) return LastErrno();
  const int error = real::connect(fd, to, length) == 0 ? 0 : LastErrno();
  static_cast<void>(::fcntl(fd, F_SETFL, flags));
  return error;
}

int Connect(HookedCall& call, int fd, const sockaddr* to, socklen_t length) noexcept {
  int error = StartConnect(fd, to, length);
  if (error == EAGAIN) {  // A Unix socket whose peer's backlog is full: no event tells when it is not.
    int result = -1;
    call.MakeElsewhere([&] { result = real::connect(fd, to, length); });
    return result;
  }
  if (error == EINPROGRESS || error == EALREADY) {
    error = call.Wait(fd, POLLOUT, SocketDeadline(fd, SO_SNDTIMEO));
    if (error == ETIMEDOUT) error = EINPROGRESS;
    if (error == 0) error = ErrorOfSocket(fd);
  }
  return error == 0 ? 0 : Fail(error);
}

// ---- accept ----

// accept() has no MSG_DONTWAIT either, and a listener's flag is seen by all who accept. Fibers look and accept under a
// lock, so that none of them waits in accept() because another one was faster.
constexpr int kAcceptLocks = 16;
constinit pthread_mutex_t accept_locks[kAcceptLocks] = {
    PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
    PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
    PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
    PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};

// A thread that is gone may hold one.
void RenewAcceptLocks() {
  for (pthread_mutex_t& lock : accept_locks) lock = PTHREAD_MUTEX_INITIALIZER;
}

[[gnu::constructor]] void RenewAcceptLocksAtFork() { ::pthread_atfork(nullptr, nullptr, &RenewAcceptLocks); }

// attempt() is accept(). EAGAIN: there is no connection.
template <class Attempt>
ssize_t AcceptIfReady(int fd, Attempt& attempt) noexcept {
  pthread_mutex_t* const lock = &accept_locks[fd % kAcceptLocks];
  pollfd polled{.fd = fd, .events = POLLIN, .revents = 0};
  ::pthread_mutex_lock(lock);
  const bool ready = real::poll(&polled, 1, 0) != 0;
  const int result = ready ? attempt() : -1;
  const int error = ready ? LastErrno() : EAGAIN;
  ::pthread_mutex_unlock(lock);
  SetErrno(error);
  return result;
}

template <class Attempt>
int Accept(HookedCall& call, int fd, Attempt&& attempt) noexcept {
  if (fd < 0 || IsNonBlocking(fd)) return attempt();
  return static_cast<int>(call.RetryRead(fd, [&] { return AcceptIfReady(fd, attempt); }));
}

}  // namespace
}  // namespace weft::hook

// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name)

using namespace weft::hook;  // NOLINT(google-build-using-namespace): what follows is C.

WEFT_HOOK int connect(int fd, const sockaddr* to, socklen_t length) {
  if (!InHookedFiber()) return real::connect(fd, to, length);
  HookedCall call(counters::connect);
  return IsNonBlocking(fd) ? real::connect(fd, to, length) : Connect(call, fd, to, length);
}

WEFT_HOOK int accept(int fd, sockaddr* from, socklen_t* length) {
  if (!InHookedFiber()) return real::accept(fd, from, length);
  HookedCall call(counters::accept);
  return Accept(call, fd, [=] { return real::accept(fd, from, length); });
}

WEFT_HOOK int accept4(int fd, sockaddr* from, socklen_t* length, int flags) {
  if (!InHookedFiber()) return real::accept4(fd, from, length, flags);
  HookedCall call(counters::accept4);
  return Accept(call, fd, [=] { return real::accept4(fd, from, length, flags); });
}

WEFT_HOOK ssize_t recv(int fd, void* room, std::size_t size, int flags) {
  if (NeverWaits(flags) || !InHookedFiber()) return real::recv(fd, room, size, flags);
  HookedCall call(counters::recv);
  return Receive(call, fd, room, size, flags, nullptr, nullptr);
}

WEFT_HOOK ssize_t recvfrom(int fd, void* room, std::size_t size, int flags, sockaddr* from, socklen_t* length) {
  if (NeverWaits(flags) || !InHookedFiber()) return real::recvfrom(fd, room, size, flags, from, length);
  HookedCall call(counters::recvfrom);
  return Receive(call, fd, room, size, flags, from, length);
}

WEFT_HOOK ssize_t recvmsg(int fd, msghdr* message, int flags) {
  if (NeverWaits(flags) || message == nullptr || !InHookedFiber()) return real::recvmsg(fd, message, flags);
  HookedCall call(counters::recvmsg);
  return ReceiveMessage(call, fd, message, flags);
}

WEFT_HOOK ssize_t send(int fd, const void* data, std::size_t size, int flags) {
  if (NeverWaits(flags) || !InHookedFiber()) return real::send(fd, data, size, flags);
  HookedCall call(counters::send);
  return Send(call, fd, data, size, flags);
}

WEFT_HOOK ssize_t sendto(int fd, const void* data, std::size_t size, int flags, const sockaddr* to, socklen_t length) {
  if (NeverWaits(flags) || !InHookedFiber()) return real::sendto(fd, data, size, flags, to, length);
  HookedCall call(counters::sendto);
  return Send(call, fd, data, size, flags, to, length);
}

WEFT_HOOK ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  if (NeverWaits(flags) || message == nullptr || !InHookedFiber()) return real::sendmsg(fd, message, flags);
  HookedCall call(counters::sendmsg);
  return SendMessage(call, fd, message, flags);
}

// _FORTIFY_SOURCE: `room_size` is what the compiler knows of the room.
extern "C" [[noreturn]] void __chk_fail() noexcept;  // NOLINT(bugprone-reserved-identifier): the C library's.

WEFT_HOOK ssize_t __recv_chk(int fd, void* room, std::size_t size, std::size_t room_size, int flags) {
  if (size > room_size) __chk_fail();
  return recv(fd, room, size, flags);
}

WEFT_HOOK ssize_t __recvfrom_chk(int fd, void* room, std::size_t size, std::size_t room_size, int flags, sockaddr* from,
                                 socklen_t* length) {
  if (size > room_size) __chk_fail();
  return recvfrom(fd, room, size, flags, from, length);
}

// NOLINTEND(readability-inconsistent-declaration-parameter-name)
