// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Transfers of a blocking socket, for hooked calls: each attempt is made with MSG_DONTWAIT, and the fiber waits in
// between. A blocking send ends when all is sent, so attempts that send a part are continued.
#ifndef WEFT_INTEROP_HOOK_SOCKET_TRANSFER_H_
#define WEFT_INTEROP_HOOK_SOCKET_TRANSFER_H_

#include <sys/socket.h>
#include <sys/types.h>

#include <cstddef>

#include "weft/interop/hook/hooked_call.h"

namespace weft::hook {

// As recv(), recvmsg(), sendto(), sendmsg(). ENOTSOCK comes at once.
ssize_t Receive(HookedCall& call, int fd, void* room, std::size_t size, int flags, sockaddr* from, socklen_t* length);
ssize_t ReceiveMessage(HookedCall& call, int fd, msghdr* message, int flags);
ssize_t Send(HookedCall& call, int fd, const void* data, std::size_t size, int flags, const sockaddr* to = nullptr,
             socklen_t length = 0);
ssize_t SendMessage(HookedCall& call, int fd, const msghdr* message, int flags);

// Whether no call with these flags waits.
inline bool NeverWaits(int flags) noexcept { return (flags & (MSG_DONTWAIT | MSG_ERRQUEUE)) != 0; }

}  // namespace weft::hook

#endif  // WEFT_INTEROP_HOOK_SOCKET_TRANSFER_H_
