// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// What the samples of the header of this name use: see ../../compile_samples.py.

struct Connection {
  void Forget();
};
Connection* connection = nullptr;
struct Transaction {
  int interruptions = 0;
};
Transaction transaction;
