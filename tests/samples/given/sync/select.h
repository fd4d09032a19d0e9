// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// What the samples of the header of this name use: see ../../compile_samples.py.

struct Request {};
void Serve(Request request);
void Complain();
FiberChannel<Request>& requests = *static_cast<FiberChannel<Request>*>(nullptr);
FiberChannel<int>& replies = *static_cast<FiberChannel<int>*>(nullptr);
FiberEvent& stop = *static_cast<FiberEvent*>(nullptr);
int reply;
bool sent;
bool running;
