// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Internal: not promised to users.
//
// SlotCase, FdCase: a socket of Weft, and a descriptor of others, as a case of a Select() (sync/selection.h). Users get
// them by io/select.h.
//
// An event is a hint (event_handler.h), and more than one may read. So a case is taken only when poll(2) says that it is
// ready, and a notification that is no end of the wait begins the selection anew.
//
// Invariants
//   SC1  Between Enter() and Leave() or Notified() a SlotCase uses its slot (BeginUse()), and a FdCase is counted as a
//        wait (WF4): so the number is not closed, or something is left of the registration, behind it.
//   SC2  What SlotCase finds not to be ready it clears with the ticket taken before (FD1): an event that comes after
//        that leaves the hint.
#ifndef WEFT_IO_SELECT_CASE_H_
#define WEFT_IO_SELECT_CASE_H_

#include <cstdint>
#include <system_error>

#include "weft/io/descriptor.h"
#include "weft/io/tcp_listener.h"
#include "weft/io/tcp_stream.h"
#include "weft/io/udp_socket.h"
#include "weft/io/wait_fd.h"
#include "weft/sync/selection.h"

namespace weft::io {

class FdSlot;
class ForeignFd;  // wait_fd.cc

enum class Readiness : std::uint8_t { kReadable, kWritable };

class SlotCase final : public synchronization::SelectCase {
 public:
  // nullptr: it was never open.
  SlotCase(synchronization::Selection* selection, FdSlot* slot, Readiness wanted) noexcept
      : SelectCase(selection), slot_(slot), wanted_(wanted) {}

  bool TryTake() noexcept override;
  Entered Enter() noexcept override;
  void Leave() noexcept override;
  bool Notified() noexcept override;

  std::error_code error() const noexcept { return error_; }

 private:
  bool IsReadyInUse() noexcept;
  bool EnterInUse() noexcept;

  FdSlot* const slot_;
  const Readiness wanted_;
  std::error_code error_;
};

// Its functions are in wait_fd.cc.
class FdCase final : public synchronization::SelectCase {
 public:
  // Throws std::bad_alloc.
  FdCase(synchronization::Selection* selection, int fd, short events);

  bool TryTake() noexcept override;
  Entered Enter() noexcept override;
  void Leave() noexcept override;
  bool Notified() noexcept override;

  const WaitFdResult& result() const noexcept { return result_; }

 private:
  const int fd_;
  const std::uint32_t wanted_;
  ForeignFd* const foreign_;    // nullptr: the number is impossible
  const std::uint32_t closes_;  // when the selection began: WF3
  WaitFdResult result_;
};

// The slots of sockets; nullptr: it was never open.
struct SelectAccess {
  static FdSlot* SlotOf(const TcpStream& stream) noexcept { return stream.descriptor_.slot_; }
  static FdSlot* SlotOf(const TcpListener& listener) noexcept { return listener.descriptor_.slot_; }
  static FdSlot* SlotOf(const UdpSocket& socket) noexcept { return socket.descriptor_.slot_; }
};

}  // namespace weft::io

#endif  // WEFT_IO_SELECT_CASE_H_
