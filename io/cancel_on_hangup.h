// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// CancelOnHangup: cancels a scope when the peer of a connection goes away while the scope's work is being done.
// Sample:
//     CancelScope scope(request.time_left);
//     const io::CancelOnHangup watch(stream, &scope);
//     if (!scope.Run([&] { Answer(request); })) return;  // the time is over, or nobody waits for the answer
//
// Which end counts. A reset always does. A TCP peer that closes its socket sends the same as one that has finished
// sending and still reads (a half-close): the end of its data. So the protocol must say what that means:
//
//     Hangup::kEnd    the end of the peer's data counts, whether what came before it has been read or not. For
//                     protocols whose clients keep their side open while they wait for an answer.
//     Hangup::kReset  only what says that nobody reads counts: a reset, or the close of a Unix socket. A TCP client
//                     that has closed is noticed when it resets what is written to it.
//
// Our own ShutdownRead(), as of TcpServer::Stop(), is no hang-up; after it, only the close counts on a Unix socket.
//
// How it works: no fiber and no system call for each request. The reactor, which gets the event in any case, asks the
// kernel whether it was a hang-up, and cancels the scope (FD8 in io/reactor/fd_slot.h).
//
// Who may call: any fiber. In a plain thread it watches nothing, as a scope ends nothing there. The scope outlives the
// watch, whose stream may be read, written, shut down, closed and moved meanwhile. One watch at a time on a connection.
// Memory ordering: as CancelScope::Cancel().
#ifndef WEFT_IO_CANCEL_ON_HANGUP_H_
#define WEFT_IO_CANCEL_ON_HANGUP_H_

#include <atomic>
#include <system_error>

#include "weft/io/reactor/registration.h"
#include "weft/io/tcp_stream.h"
#include "weft/sync/cancel_scope.h"

namespace weft::io {

// What counts as a hang-up: see above.
enum class Hangup { kEnd, kReset };

class FdSlot;

class CancelOnHangup final : private HangupWatch {
 public:
  // Also if the peer has gone already: then the scope is cancelled at once.
  CancelOnHangup(TcpStream& stream, CancelScope* scope, Hangup what = Hangup::kEnd);
  // Afterwards the scope is left alone.
  ~CancelOnHangup() {
    if (slot_ != nullptr) Descriptor::StopWatching(slot_);
  }
  CancelOnHangup(const CancelOnHangup&) = delete;
  CancelOnHangup& operator=(const CancelOnHangup&) = delete;

  // The peer has gone, and the scope was cancelled for it.
  [[nodiscard]] bool hung_up() const noexcept { return hung_up_.load(std::memory_order_relaxed); }  // Carries nothing.
  // Why it watches nothing: the stream is not open, or the system refuses what it needs. None in a plain thread.
  std::error_code error() const noexcept { return error_; }

 private:
  void MayHaveHungUp(int fd, bool read_is_shut) noexcept override;

  CancelScope* const scope_;
  const Hangup what_;
  std::atomic<bool> hung_up_{false};
  std::error_code error_;
  FdSlot* slot_ = nullptr;  // nullptr: it watches nothing
};

}  // namespace weft::io

#endif  // WEFT_IO_CANCEL_ON_HANGUP_H_
