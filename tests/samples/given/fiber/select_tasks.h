// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// What the samples of the header of this name use: see ../../compile_samples.py.

FiberTask<int>& task = *static_cast<FiberTask<int>*>(nullptr);
Fiber& fiber = *static_cast<Fiber*>(nullptr);
Future<int>& future = *static_cast<Future<int>*>(nullptr);
FiberEvent& stop = *static_cast<FiberEvent*>(nullptr);
struct Reply {};
std::vector<FiberTask<Reply>> AskAll();
void Use(int result);
void Use(Reply reply);
