// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// How to read the figures
//
// BM_AllocateBlock: allocates and frees a block of so many bytes, by 1 and 2 threads; the twin takes it from a pool, a
// list under a spin lock. BM_PassBlock: one thread allocates 512 blocks, another one frees them, as in a server whose
// answers are written by other workers; the figure to read is the CPU time of both for a block, 1/512 of what is shown.
// A pool would be worth having if it saved much of what a message costs (BM_Message).
// BM_AppendString: a string of so many bytes is appended to a buffer that has room, kept or copied. Where the two cross
// is NoncontiguousBuffer::kCopyBelow.
// BM_Message: a frame is put together (a header of 24 bytes, a body that is kept), copied, and its header cut off.
// BM_Fill: 100,000 bytes by 100; the twin is std::string.

#include <benchmark/benchmark.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "weft/base/memory/buffer_block.h"
#include "weft/base/noncontiguous_buffer.h"
#include "weft/base/thread/spin_lock.h"

namespace weft {
namespace {

struct FromMalloc {
  explicit FromMalloc(std::size_t size) : size(size) {}
  void* Get() { return ::operator new(size); }
  void Put(void* block) { ::operator delete(block); }
  const std::size_t size;
};

struct FromPool {
  explicit FromPool(std::size_t size) : size(size) {}
  ~FromPool() {
    for (void* block : free) ::operator delete(block);
  }
  void* Get() {
    {
      const std::scoped_lock guard(lock);
      if (!free.empty()) {
        void* const block = free.back();
        free.pop_back();
        return block;
      }
    }
    return ::operator new(size);
  }
  void Put(void* block) {
    const std::scoped_lock guard(lock);
    free.push_back(block);
  }
  const std::size_t size;
  base::SpinLock lock;
  std::vector<void*> free;
};

template <class Source>
void BM_AllocateBlock(benchmark::State& state) {
  static Source* source = nullptr;
  if (state.thread_index() == 0) source = new Source(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) {
    void* const block = source->Get();
    *static_cast<char*>(block) = 1;
    benchmark::DoNotOptimize(block);
    source->Put(block);
  }
  if (state.thread_index() == 0) delete source;
}

template <class Source>
void BM_PassBlock(benchmark::State& state) {
  constexpr int kAtOnce = 512;
  Source source(static_cast<std::size_t>(state.range(0)));
  std::array<void*, kAtOnce> blocks;
  std::atomic<int> turn{0};  // 0: the one who allocates; 1: the one who frees; 2: the end
  std::thread other([&] {
    for (;;) {
      turn.wait(0, std::memory_order_acquire);
      if (turn.load(std::memory_order_acquire) == 2) return;
      for (void* block : blocks) source.Put(block);
      turn.store(0, std::memory_order_release);
      turn.notify_one();
    }
  });
  for (auto _ : state) {
    for (void*& block : blocks) {
      block = source.Get();
      *static_cast<char*>(block) = 1;
    }
    turn.store(1, std::memory_order_release);
    turn.notify_one();
    turn.wait(1, std::memory_order_acquire);
  }
  turn.store(2, std::memory_order_release);
  turn.notify_one();
  other.join();
}

template <bool kCopy>
void BM_AppendString(benchmark::State& state) {
  const auto size = static_cast<std::size_t>(state.range(0));
  NoncontiguousBuffer buffer;
  for (auto _ : state) {
    std::string text(size, 'x');
    benchmark::DoNotOptimize(text.data());
    if constexpr (kCopy) {
      buffer.AppendCopy(text);
    } else {
      auto* const kept = new std::string(std::move(text));
      buffer.AppendForeign(kept->data(), size, [kept](const void*) { delete kept; });
    }
    benchmark::DoNotOptimize(buffer.FirstContiguous().data());
    buffer.Skip(size);
  }
}

void BM_Message(benchmark::State& state) {
  const std::string_view header = "0123456789abcdefghijklmn";
  for (auto _ : state) {
    NoncontiguousBuffer message;
    message.AppendCopy(header);
    message.Append(std::string(static_cast<std::size_t>(state.range(0)), 'x'));
    NoncontiguousBuffer copy = message;
    const NoncontiguousBuffer cut = copy.Cut(header.size());
    benchmark::DoNotOptimize(cut.FirstContiguous().data());
    benchmark::DoNotOptimize(copy.FirstContiguous().data());
  }
}

void Add(NoncontiguousBuffer* to, std::string_view bytes) { to->AppendCopy(bytes); }
void Add(std::string* to, std::string_view bytes) { to->append(bytes); }

template <class Container>
void BM_Fill(benchmark::State& state) {
  const std::string part(100, 'x');
  for (auto _ : state) {
    Container container;
    for (int i = 0; i < 1000; ++i) Add(&container, part);
    benchmark::DoNotOptimize(&container);
  }
}

BENCHMARK(BM_AllocateBlock<FromMalloc>)
    ->ArgName("size")
    ->Arg(512)
    ->Arg(16 << 10)
    ->Arg(64 << 10)
    ->Threads(1)
    ->Threads(2)
    ->UseRealTime();
BENCHMARK(BM_AllocateBlock<FromPool>)
    ->ArgName("size")
    ->Arg(512)
    ->Arg(16 << 10)
    ->Arg(64 << 10)
    ->Threads(1)
    ->Threads(2)
    ->UseRealTime();
BENCHMARK(BM_PassBlock<FromMalloc>)->ArgName("size")->Arg(512)->Arg(16 << 10)->Arg(64 << 10)->MeasureProcessCPUTime();
BENCHMARK(BM_PassBlock<FromPool>)->ArgName("size")->Arg(512)->Arg(16 << 10)->Arg(64 << 10)->MeasureProcessCPUTime();
BENCHMARK(BM_AppendString<false>)->Name("BM_AppendString/kept")->RangeMultiplier(2)->Range(64, 4096);
BENCHMARK(BM_AppendString<true>)->Name("BM_AppendString/copied")->RangeMultiplier(2)->Range(64, 4096);
BENCHMARK(BM_Message)->ArgName("body")->Arg(16)->Arg(1 << 10)->Arg(64 << 10);
BENCHMARK(BM_Fill<NoncontiguousBuffer>);
BENCHMARK(BM_Fill<std::string>);

}  // namespace
}  // namespace weft
