// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// What the samples of the header of this name use: see ../../compile_samples.py.

#include <exception>
#include <optional>
#include <system_error>
struct Reply {};
Reply Ask();
Reply AskOrThrow();
bool IsTransient(std::exception_ptr failure);
std::optional<Reply> AskReplica(std::size_t attempt);
io::TcpStream stream;
io::SocketAddress address;
