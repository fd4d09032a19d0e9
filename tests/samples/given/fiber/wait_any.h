// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// What the samples of the header of this name use: see ../../compile_samples.py.

struct Reply {};
std::vector<FiberTask<Reply>> AskAll();
FiberTask<int>& task = *static_cast<FiberTask<int>*>(nullptr);
Future<Reply>& future = *static_cast<Future<Reply>*>(nullptr);
FiberEvent& stop = *static_cast<FiberEvent*>(nullptr);
void Use(Reply reply);
