// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// What the samples of the header of this name use: see ../../compile_samples.py.

#include <fcntl.h>
const char* path;
int key, query;
struct Database {
  int Fetch(int);
} database;
struct Answer {};
Answer Ask(int query);
