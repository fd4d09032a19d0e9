// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
#include "weft/fiber/async.h"
struct Reply {};
int AskUser();
int AskStock();
std::vector<Future<Reply>> AskAllReplicas();
