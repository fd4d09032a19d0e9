// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// HangupWatch: wants to know when the peer of a descriptor has gone (FD8 in io/reactor/fd_slot.h).
#ifndef WEFT_IO_REACTOR_HANGUP_WATCH_H_
#define WEFT_IO_REACTOR_HANGUP_WATCH_H_

namespace weft::io {

class HangupWatch {
 public:
  // By the worker that polls, or in FdSlot::Watch(); under a lock, and does not switch. The peer may have gone: look.
  // `read_is_shut`: we have shut reading down ourselves.
  virtual void MayHaveHungUp(int fd, bool read_is_shut) noexcept = 0;

 protected:
  ~HangupWatch() = default;
};

}  // namespace weft::io

#endif  // WEFT_IO_REACTOR_HANGUP_WATCH_H_
