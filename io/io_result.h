// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// IoResult: the result of a read or a write. WaitFdResult: that of a wait for a descriptor (io/wait_fd.h).
//
// Errors are std::error_code of the generic category, so that they compare with std::errc:
//   timed_out             the deadline has passed
//   operation_canceled    the descriptor was closed, before or meanwhile; or the fiber is in a cancelled scope and
//                         would have had to wait (sync/cancel_scope.h)
//   others                the kernel's error (connection_reset, broken_pipe ...)
#ifndef WEFT_IO_IO_RESULT_H_
#define WEFT_IO_IO_RESULT_H_

#include <cstddef>
#include <system_error>

namespace weft::io {

struct IoResult {
  std::size_t bytes = 0;  // transferred, even if an error followed
  // None, or why it ended.
  std::error_code error;

  // Whether there was no error.
  bool ok() const noexcept { return !error; }
};

// What a wait for a descriptor has found.
struct WaitFdResult {
  short events = 0;  // of those asked for, and POLLERR, POLLHUP; 0: an error
  // None, or why it ended.
  std::error_code error;
};

// The kernel's number as a std::error_code that compares with std::errc.
inline std::error_code ErrnoCode(int number) noexcept { return {number, std::generic_category()}; }

}  // namespace weft::io

#endif  // WEFT_IO_IO_RESULT_H_
