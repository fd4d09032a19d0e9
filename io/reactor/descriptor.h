// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Descriptor: owns a descriptor that fibers and threads read, write and close at the same time. Sockets are made of it;
// for descriptors of other libraries there is WaitFd() (io/wait_fd.h).
//
// The constructor sets O_NONBLOCK, since no deadline and no cancellation ends a blocking read(). The flag belongs to
// the open file: processes and duplicates that share it (a terminal, say) see it, too. Nobody may reset it.
//
// Who may call: any fiber and any thread, several at once; a wait switches in a fiber and blocks a plain thread. Move,
// assign and destroy it only while no one else uses it. Close() may be called meanwhile: the others get
// operation_canceled, and the last closes the number. A call makes at least one attempt, even after its deadline.
#ifndef WEFT_IO_REACTOR_DESCRIPTOR_H_
#define WEFT_IO_REACTOR_DESCRIPTOR_H_

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <system_error>
#include <type_traits>
#include <utility>

#include "weft/base/deadline.h"
#include "weft/base/thread/cpu.h"
#include "weft/io/io_result.h"
#include "weft/io/reactor/readable_watch.h"

namespace weft::io {

class FdSlot;
class HangupWatch;
namespace detail {
struct SelectAccess;  // io/select_sockets.h
}

class Descriptor {
 public:
  Descriptor() = default;
  // Takes over a descriptor, and makes it non-blocking.
  explicit Descriptor(int fd);
  Descriptor(Descriptor&& other) noexcept : slot_(std::exchange(other.slot_, nullptr)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) {
      Drop();
      slot_ = std::exchange(other.slot_, nullptr);
    }
    return *this;
  }
  ~Descriptor() { Drop(); }

  bool IsOpen() const noexcept;  // it was opened, and not closed
  // False: it was not open. Does not wait until others have ended their calls.
  bool Close() noexcept;
  // For system calls that do not block, while no one can close it. -1: not open.
  int fd() const noexcept;

  // These two repeat `call(fd)`, a system call that returns -1 and sets errno, as long as it fails with EAGAIN or
  // EINTR, and wait in between until a try may succeed. A read of TCP below `full` bytes means that there was no more;
  // full 0: it never means that. `call` is an object, not a function.
  template <class Call>
  [[nodiscard]] IoResult RetryRead(std::size_t full, Call&& call, Deadline deadline) {
    return RetryRead(full, &Invoke<std::remove_reference_t<Call>>, AddressOf(call), deadline);
  }
  template <class Call>
  [[nodiscard]] IoResult RetryWrite(Call&& call, Deadline deadline) {
    return RetryWrite(&Invoke<std::remove_reference_t<Call>>, AddressOf(call), deadline);
  }
  // Makes `call(fd)`, a system call that does not block, once.
  template <class Call>
  std::error_code Once(Call&& call) const {
    return Once(&Invoke<std::remove_reference_t<Call>>, AddressOf(call));
  }

  // For cancel_on_hangup.h. A fiber. The slot that tells `watch` of hang-ups until StopWatching(); nullptr: *error says
  // why none does. The descriptor may be moved and closed meanwhile.
  FdSlot* StartWatching(HangupWatch* watch, std::error_code* error);
  static void StopWatching(FdSlot* slot) noexcept;
  // Before shutdown(2) for reading.
  void NoteReadIsShut() noexcept;

  // For tcp_connection.h, after a read that has succeeded: whether it waited, or let others run. A hint.
  bool ReadHasGivenWay() const noexcept;

  // For tcp_server.h. A fiber. A descriptor that is not open is readable.
  [[nodiscard]] ReadableWatch::Armed Arm(ReadableWatch* watch) noexcept;

  // How long each wait lasts at most that has no deadline, from now on. 0: no limit.
  std::error_code SetWaitLimits(std::chrono::milliseconds read, std::chrono::milliseconds write) noexcept;

  // Waits until poll(2) would say readable: bytes, the end or an error (which another reader may take first).
  [[nodiscard]] std::error_code WaitReadable(Deadline deadline = {});
  // A read that fills less than its buffer does not mean that there was no more. Known without it: everything but TCP,
  // and TCP that has an upper-layer protocol when a fiber first waits for it.
  void ExpectShortReads() noexcept;

 private:
  friend struct detail::SelectAccess;
  using SystemCall = ssize_t (*)(void* call, int fd);

  // A function of its own, also where the linker optimises, so that errno is that of the thread that makes the call.
  template <class Call>
  WEFT_NOINLINE static ssize_t Invoke(void* call, int fd) {
    return (*static_cast<Call*>(call))(fd);
  }
  template <class Call>
  static void* AddressOf(Call& call) noexcept {
    return const_cast<void*>(static_cast<const void*>(std::addressof(call)));
  }
  IoResult RetryRead(std::size_t full, SystemCall function, void* call, Deadline deadline);
  IoResult RetryWrite(SystemCall function, void* call, Deadline deadline);
  std::error_code Once(SystemCall function, void* call) const;

  void Drop() noexcept {
    if (slot_ != nullptr) DropSlot();
  }
  void DropSlot() noexcept;

  FdSlot* slot_ = nullptr;
};

}  // namespace weft::io

#endif  // WEFT_IO_REACTOR_DESCRIPTOR_H_
