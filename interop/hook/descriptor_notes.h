// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// What the hooks remember of descriptors, by number: its kind, and whether a hooked call has waited for it.
//
// Both are hints. A number may come to mean something else unnoticed (fclose(), close_range(), another process's
// message), so each kind is right to act on for the others, too: recv() of what is no socket says ENOTSOCK, and a
// socket may be polled as a pipe is. Files, which are not polled, are not remembered.
#ifndef WEFT_INTEROP_HOOK_DESCRIPTOR_NOTES_H_
#define WEFT_INTEROP_HOOK_DESCRIPTOR_NOTES_H_

#include <cstdint>

namespace weft::hook {

enum class Kind : std::uint8_t {
  kUnknown,
  kSocket,
  kPipe,      // a large write comes to its end in parts
  kPollable,  // a terminal, eventfd, timerfd ...
  kFile,      // never waits, as far as poll() knows; also a number that is not open
};

// Asks the kernel, unless it is remembered.
Kind KindOf(int fd) noexcept;
// It is not what it was.
void ForgetKind(int fd) noexcept;

// HOK3
void NoteWait(int fd) noexcept;
// Before the number is closed: ends the waits for it, and forgets its kind.
void BeforeClose(int fd) noexcept;

}  // namespace weft::hook

#endif  // WEFT_INTEROP_HOOK_DESCRIPTOR_NOTES_H_
