// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// A program that uses weft::tls: an option that cannot be is refused with a reason.
#include <weft/interop/tls_context.h>
#include <weft/interop/tls_stream.h>

#include <cstdio>
#include <string>

int main() {
  std::string why;
  if (weft::interop::TlsContext::ForServer({}, &why)) return 1;
  std::puts(why.c_str());
  return weft::interop::TlsContext::ForClient({.alpn = {"h2"}}, &why) ? 0 : 1;
}
