// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// What the samples of the header of this name use: see ../../compile_samples.py.

struct Command {};
io::TcpStream& client = *static_cast<io::TcpStream*>(nullptr);
io::TcpStream& server = *static_cast<io::TcpStream*>(nullptr);
FiberChannel<Command>& commands = *static_cast<FiberChannel<Command>*>(nullptr);
void Forward(io::TcpStream& from, io::TcpStream& to);
void Obey(Command command);
