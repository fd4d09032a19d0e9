// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// What the samples of the header of this name use: see ../../compile_samples.py.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

std::string header;
NoncontiguousBuffer body;
void Send(std::string_view bytes);
std::size_t Encode(std::span<char> room);
