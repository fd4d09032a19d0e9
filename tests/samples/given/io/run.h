// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// What the samples of the header of this name use: see ../../compile_samples.py.

#include <exception>
#include <iostream>
void Serve(io::TcpStream client);
io::TcpListener Listening();
void ServeConnection(io::TcpConnection& connection);
