// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// The former name of "weft/net/circuit_breaker.h", for one version.
#ifndef WEFT_IO_CIRCUIT_BREAKER_H_
#define WEFT_IO_CIRCUIT_BREAKER_H_

#include "weft/net/circuit_breaker.h"  // IWYU pragma: export

#endif  // WEFT_IO_CIRCUIT_BREAKER_H_
