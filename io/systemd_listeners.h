// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// The former name of "weft/net/systemd_listeners.h", for one version.
#ifndef WEFT_IO_SYSTEMD_LISTENERS_H_
#define WEFT_IO_SYSTEMD_LISTENERS_H_

#include "weft/net/systemd_listeners.h"  // IWYU pragma: export

#endif  // WEFT_IO_SYSTEMD_LISTENERS_H_
