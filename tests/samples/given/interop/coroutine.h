// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// What the samples of the header of this name use: see ../../compile_samples.py.

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <coroutine>
#include <optional>
int Compute();
CoTask<int> Sum(FiberChannel<int>& numbers, FiberEvent& begin);
FiberChannel<int> numbers(10);
FiberEvent begin;
template <class T>
struct MyFuture {
  T Get();
};
