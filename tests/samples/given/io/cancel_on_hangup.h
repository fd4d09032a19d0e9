// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// What the samples of the header of this name use: see ../../compile_samples.py.

#include <chrono>

struct Request {
  std::chrono::milliseconds time_left;
};
extern Request request;
extern weft::io::TcpStream stream;
void Answer(const Request& request);
