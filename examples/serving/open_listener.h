// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// OpenListener: what --listen of the servers says.
//
//   1.2.3.4:port, [v6]:port   port 0: any free one
//   unix:/path                the file goes with the program; that of a killed one is replaced
//   fd:3                      a listening socket that whoever started the program has left open
//   systemd                   the only one that systemd has handed over (weft/net/systemd_listeners.h)
//
// With the last two the socket outlives the program, so that a restart refuses no connection.
#ifndef WEFT_EXAMPLES_SERVING_OPEN_LISTENER_H_
#define WEFT_EXAMPLES_SERVING_OPEN_LISTENER_H_

#include <string>

#include "weft/io/tcp_listener.h"

namespace examples {

// 0: *listener is open. Otherwise main()'s status, and *why says why: 2: `where` is none of the above; 1: it cannot be.
int OpenListener(const std::string& where, weft::io::TcpListener* listener, std::string* why);

}  // namespace examples

#endif  // WEFT_EXAMPLES_SERVING_OPEN_LISTENER_H_
