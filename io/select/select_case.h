// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// SlotCase: a socket of Weft as a case of a Select() (sync/select.h). Users get it by io/select.h.
//
// An event is a hint (event_handler.h), and more than one may read. So the case is taken only when poll(2) says that it
// is ready, and a notification that turns out to be none begins the selection anew.
//
// Invariants
//   SCA1  Between Enter() and Leave() or Notified() it uses its slot (BeginUse()), so the number is not closed.
//   SCA2  It clears the hint with the ticket taken before poll(2) said "not ready" (FD1): a later event leaves it.
#ifndef WEFT_IO_SELECT_SELECT_CASE_H_
#define WEFT_IO_SELECT_SELECT_CASE_H_

#include <cstdint>
#include <system_error>

#include "weft/io/reactor/descriptor.h"
#include "weft/io/tcp_listener.h"
#include "weft/io/tcp_stream.h"
#include "weft/io/udp_socket.h"
#include "weft/sync/select.h"

namespace weft::io {

class FdSlot;

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
  bool has_waited_ = false;  // The latest event may not have been reported yet: the kernel has the last word.
  std::error_code error_;
};

// The slots of sockets; nullptr: it was never open.
struct SelectAccess {
  static FdSlot* SlotOf(const TcpStream& stream) noexcept { return stream.descriptor_.slot_; }
  static FdSlot* SlotOf(const TcpListener& listener) noexcept { return listener.descriptor_.slot_; }
  static FdSlot* SlotOf(const UdpSocket& socket) noexcept { return socket.descriptor_.slot_; }
};

}  // namespace weft::io

#endif  // WEFT_IO_SELECT_SELECT_CASE_H_
