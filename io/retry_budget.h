// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// The former name of "weft/net/budgets.h", for one version.
#ifndef WEFT_IO_RETRY_BUDGET_H_
#define WEFT_IO_RETRY_BUDGET_H_

#include "weft/net/budgets.h"  // IWYU pragma: export

#endif  // WEFT_IO_RETRY_BUDGET_H_
