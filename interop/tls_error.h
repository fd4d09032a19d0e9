// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// TlsErrc: see "weft/interop/tls_context.h".
#ifndef WEFT_INTEROP_TLS_ERROR_H_
#define WEFT_INTEROP_TLS_ERROR_H_

#include "weft/interop/tls_context.h"  // IWYU pragma: export

#endif  // WEFT_INTEROP_TLS_ERROR_H_
