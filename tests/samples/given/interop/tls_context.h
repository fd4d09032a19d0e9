// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
#include <iostream>

#include "weft/interop/tls_stream.h"
extern interop::TlsStream& tls;
std::span<char> room;
void DropWhatHasCome();
