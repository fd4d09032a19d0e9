// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// g++ weft-http.cc $(pkg-config --cflags --libs weft-http)
#include <weft/http/server.h>

int main() {
  const weft::http::Server server([](weft::http::Request&, weft::http::Response&) {});
  return static_cast<int>(server.counts().requests);
}
