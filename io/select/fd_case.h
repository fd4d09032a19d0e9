// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// FdCase: a descriptor of others as a case of a Select() (sync/select.h). Users get it by io/select.h. Its
// functions are in wait_fd.cc: it is a wait of WaitFd(), and from Enter() to Leave() or Notified() counted as one
// (WF4). Another waiter's event, which wakes all, begins the selection anew.
#ifndef WEFT_IO_SELECT_FD_CASE_H_
#define WEFT_IO_SELECT_FD_CASE_H_

#include <cstdint>

#include "weft/io/io_result.h"
#include "weft/sync/select.h"

namespace weft::io {

class ForeignFd;  // wait_fd.cc

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

}  // namespace weft::io

#endif  // WEFT_IO_SELECT_FD_CASE_H_
