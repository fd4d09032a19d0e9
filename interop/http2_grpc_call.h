// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// GrpcCall: see "weft/interop/http2_grpc.h".
#ifndef WEFT_INTEROP_HTTP2_GRPC_CALL_H_
#define WEFT_INTEROP_HTTP2_GRPC_CALL_H_

#include "weft/interop/http2_grpc.h"  // IWYU pragma: export

#endif  // WEFT_INTEROP_HTTP2_GRPC_CALL_H_
