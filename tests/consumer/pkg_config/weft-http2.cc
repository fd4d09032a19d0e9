// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// g++ weft-http2.cc $(pkg-config --cflags --libs weft-http2): the part that needs both of its libraries.
#include <weft/interop/http2_grpc.h>

int main() {
  const weft::interop::Http2GrpcService service;
  return static_cast<int>(service.services().size());
}
