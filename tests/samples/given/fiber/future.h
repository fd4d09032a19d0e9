// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// What the samples of the header of this name use: see ../../compile_samples.py.

#include <vector>

#include "weft/fiber/async.h"
#include "weft/fiber/fiber.h"

struct User {};
struct Stock {};
struct Reply {};
User AskUser();
Stock AskStock();
std::vector<Future<Reply>> AskAllReplicas();
