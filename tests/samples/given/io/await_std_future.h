// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
struct Row {};
int key = 0;
struct {
  std::future<Row> FetchAsync(int);
} database;
