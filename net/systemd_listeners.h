// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// SystemdListeners: the listening sockets that systemd, or another supervisor, has handed to this process
// (sd_listen_fds(3): descriptors from 3 on, LISTEN_FDS of them, for the process LISTEN_PID). The supervisor keeps them
// open, so that a restart refuses no connection: what comes meanwhile waits for the next process.
// Sample:
//     std::vector<io::SystemdListener> passed;
//     if (auto error = io::SystemdListeners(&passed)) return error;
//     if (passed.empty()) ...                        // started without: listen oneself
//     io::TcpServer server(std::move(passed[0].listener), [](io::TcpConnection& connection) { ... });
#ifndef WEFT_NET_SYSTEMD_LISTENERS_H_
#define WEFT_NET_SYSTEMD_LISTENERS_H_

#include <string>
#include <system_error>
#include <vector>

#include "weft/io/tcp_listener.h"

namespace weft::io {

// A listening socket, with the name that its unit gives it.
struct SystemdListener {
  std::string name;  // FileDescriptorName= of the unit; empty without LISTEN_FDNAMES
  // Listens already.
  TcpListener listener;
};

// Takes them over, in their order. Once, by one thread: a second call would own the descriptors again. None, without an
// error: nothing was handed over, or it was meant for another process. invalid_argument: the variables are malformed;
// other errors: those of TcpListener::Adopt() for the first descriptor that is no listening socket. After an error
// *listeners is empty, and no descriptor is closed or changed: all are looked at before the first is taken. The
// variables stay as they are: changing them is not safe while other threads run, and LISTEN_PID names this process.
[[nodiscard]] std::error_code SystemdListeners(std::vector<SystemdListener>* listeners);

}  // namespace weft::io

#endif  // WEFT_NET_SYSTEMD_LISTENERS_H_
