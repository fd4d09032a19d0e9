// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// The former name of "weft/net/resolver.h", for one version.
#ifndef WEFT_IO_RESOLVER_OPTIONS_H_
#define WEFT_IO_RESOLVER_OPTIONS_H_

#include "weft/net/resolver.h"  // IWYU pragma: export

#endif  // WEFT_IO_RESOLVER_OPTIONS_H_
