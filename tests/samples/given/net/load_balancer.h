// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// What the samples of the header of this name use: see ../../compile_samples.py.

#include <array>
#include <cstddef>

struct Server {};
std::array<Server, 2> servers;
std::array<std::size_t, 1> tried;
void Call(Server& server);
