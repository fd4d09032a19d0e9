// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// g++ weft.cc $(pkg-config --cflags --libs weft): from the uppermost layer down to base.
#include <weft/base/log_sink.h>
#include <weft/fiber/fiber.h>
#include <weft/fiber/runtime.h>
#include <weft/net/circuit_breaker.h>

int main() {
  weft::base::SetLogSink(nullptr);
  weft::RuntimeOptions options;
  options.dump_signal = "USR2";  // Refused if the linker has left out what makes dumps.
  weft::fiber::StartRuntime(options);
  weft::io::CircuitBreaker breaker;
  weft::Fiber([&breaker] { static_cast<void>(breaker.TryAdmit()); }).Join();
  return static_cast<int>(weft::fiber::TerminateRuntime());
}
