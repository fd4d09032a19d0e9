// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// What the samples of the header of this name use: see ../../compile_samples.py.

#include <string_view>
std::string_view Read();

enum class Server { kFirst, kSecond };
void Ask(Server server);
constexpr Server first = Server::kFirst, second = Server::kSecond;
bool is_slow = false;
