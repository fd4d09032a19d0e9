// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// The former name of "weft/io/select_sockets.h", for one version.
#ifndef WEFT_IO_SELECT_H_
#define WEFT_IO_SELECT_H_

#include "weft/io/select_sockets.h"  // IWYU pragma: export

#endif  // WEFT_IO_SELECT_H_
