// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// g++ weft-grpc.cc $(pkg-config --cflags --libs weft-grpc)
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server_builder.h>
#include <weft/interop/grpc_server.h>

int main() {
  grpc::CallbackGenericService service;
  const auto server = grpc::ServerBuilder().RegisterCallbackGenericService(&service).BuildAndStart();
  weft::interop::ShutdownServer(*server, std::chrono::seconds(5));
}
