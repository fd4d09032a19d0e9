// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// g++ weft-tls.cc $(pkg-config --cflags --libs weft-tls)
#include <weft/interop/tls_context.h>

int main() {
  std::string why;
  return weft::interop::TlsContext::ForClient({.alpn = {"h2"}}, &why) ? 0 : 1;
}
