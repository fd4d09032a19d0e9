// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// The former name of "weft/net/connection_pool.h", for one version.
#ifndef WEFT_IO_CONNECTION_POOL_H_
#define WEFT_IO_CONNECTION_POOL_H_

#include "weft/net/connection_pool.h"  // IWYU pragma: export

#endif  // WEFT_IO_CONNECTION_POOL_H_
