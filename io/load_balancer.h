// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// The former name of "weft/net/load_balancer.h", for one version.
#ifndef WEFT_IO_LOAD_BALANCER_H_
#define WEFT_IO_LOAD_BALANCER_H_

#include "weft/net/load_balancer.h"  // IWYU pragma: export

#endif  // WEFT_IO_LOAD_BALANCER_H_
