// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Code that is partly in headers and partly in the library, under contention: a program compiled with NDEBUG on a
// library without, and the reverse.

#include <cstdio>
#include <vector>

#include "weft/weft.h"

namespace {

constexpr int kFibers = 16;
constexpr int kRounds = 2000;

// Even: holds the lock over a switch now and then, so that others queue up.
void LockOften(weft::FiberMutex* mutex, weft::FiberSharedMutex* shared, long* count, long* shared_count) {
  for (int i = 0; i < kRounds; ++i) {
    {
      const std::scoped_lock lock(*mutex);
      ++*count;
      if (i % 64 == 0) weft::FiberYield();
    }
    {
      const std::scoped_lock lock(*shared);
      ++*shared_count;
      if (i % 64 == 0) weft::FiberYield();
    }
    shared->lock_shared();
    shared->unlock_shared();
  }
}

void ForwardStealRequest(weft::FiberChannel<int>* in, weft::FiberChannel<int>* out) {
  for (const int item : *in) {
    if (out->Put(item + 1) != weft::ChannelResult::kOk) return;
  }
  out->Close();
}

}  // namespace

int main() {
  weft::RuntimeOptions options;
  options.concurrency_hint = 4;
  weft::StartRuntime(options);
  weft::FiberMutex mutex;
  weft::FiberSharedMutex shared;
  long count = 0;
  long shared_count = 0;
  std::vector<weft::Fiber> fibers;
  for (int i = 0; i < kFibers; ++i) {
    fibers.emplace_back([&] { LockOften(&mutex, &shared, &count, &shared_count); });
  }
  weft::FiberChannel<int> first(0);
  weft::FiberChannel<int> second(4);
  fibers.emplace_back([&] { ForwardStealRequest(&first, &second); });
  fibers.emplace_back([&] {
    for (int i = 0; i < kRounds && first.Put(i) == weft::ChannelResult::kOk; ++i) {
    }
    first.Close();
  });
  long sum = 0;
  for (const int item : second) sum += item;
  for (weft::Fiber& fiber : fibers) fiber.Join();
  const bool none_left = weft::TerminateRuntime() == 0;
  std::printf("%ld and %ld locks, sum %ld\n", count, shared_count, sum);
  const long expected = static_cast<long>(kFibers) * kRounds;
  return none_left && count == expected && shared_count == expected && sum == kRounds * (kRounds + 1L) / 2 ? 0 : 1;
}
