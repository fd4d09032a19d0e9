// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// The former name of "weft/net/connect_to_host.h", for one version.
#ifndef WEFT_IO_CONNECT_TO_HOST_H_
#define WEFT_IO_CONNECT_TO_HOST_H_

#include "weft/net/connect_to_host.h"  // IWYU pragma: export

#endif  // WEFT_IO_CONNECT_TO_HOST_H_
