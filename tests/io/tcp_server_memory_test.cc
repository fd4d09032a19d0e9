// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Where there is no memory: TcpServer, which ended the process, and a thread's cache of descriptors' slots.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>
#include <thread>
#include <utility>

#include "weft/base/thread/cpu.h"
#include "weft/io/reactor/fd_slot.h"
#include "weft/io/reactor/fd_slot_pool.h"
#include "weft/io/tcp_server.h"
#include "weft/tests/io/io_fixture.h"

namespace {

// Of the size of a connection. Others that have it at the same time get none either.
std::atomic<bool> refuses{false};
std::atomic<int> refused{0};
constexpr std::size_t kLeast = 256, kMost = 1024;

// All, to this thread.
thread_local bool refuses_here = false;

void* Allocate(std::size_t size) noexcept {
  if (refuses_here) return nullptr;
  if (!refuses || size < kLeast || size > kMost) return std::malloc(size);
  ++refused;
  return nullptr;
}

}  // namespace

// Not inlined: the compiler would find that new and delete do not match.
WEFT_NOINLINE void* operator new(std::size_t size) {
  void* memory = Allocate(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
WEFT_NOINLINE void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return Allocate(size); }
WEFT_NOINLINE void* operator new[](std::size_t size) { return operator new(size); }
WEFT_NOINLINE void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return Allocate(size); }
WEFT_NOINLINE void operator delete(void* memory) noexcept { std::free(memory); }
WEFT_NOINLINE void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
WEFT_NOINLINE void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
WEFT_NOINLINE void operator delete[](void* memory) noexcept { std::free(memory); }
WEFT_NOINLINE void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
WEFT_NOINLINE void operator delete[](void* memory, const std::nothrow_t&) noexcept { std::free(memory); }

namespace weft::io {
namespace {

using namespace std::chrono_literals;

// FP1
TEST(FdSlotPool, AThreadWithoutACacheUsesAWholeChunkAndGivesItBack) {
  constexpr FdSlotPool::Home kHome = 40;  // of no node of this machine
  constexpr std::size_t kSlots = std::size_t{2} * FdSlotPool::kBatch;
  std::thread([] {
    std::array<FdSlot*, kSlots> rounds[2];
    for (auto& slots : rounds) {
      refuses_here = true;
      for (FdSlot*& slot : slots) slot = FdSlotPool::TakeOf(kHome);
      for (FdSlot* slot : slots) FdSlotPool::Put(slot);
      refuses_here = false;
      std::sort(slots.begin(), slots.end());
      EXPECT_EQ(slots.back() - slots.front(), kSlots - 1);
      EXPECT_EQ(std::adjacent_find(slots.begin(), slots.end()), slots.end());
    }
    EXPECT_EQ(rounds[0], rounds[1]);
  }).join();
}

class TcpServerMemoryTest : public IoTest {};
WEFT_INSTANTIATE_IO_SHAPES(TcpServerMemoryTest);

TEST_P(TcpServerMemoryTest, ConnectionsWaitUntilThereIsMemory) {
  TcpListener listener;
  ASSERT_FALSE(listener.Listen(OwnLoopback()));
  TcpServer server(std::move(listener), [](TcpStream& stream) {
    char byte;
    while (stream.ReadSome(&byte, 1).bytes == 1 && stream.WriteAll(&byte, 1).ok()) {
    }
  });
  ASSERT_TRUE(server.Start());
  TcpStream clients[4];
  char byte = 'x';
  refused = 0;
  refuses = true;
  for (TcpStream& client : clients) {
    ASSERT_FALSE(client.Connect(server.local_address(), Soon()));
    ASSERT_TRUE(client.WriteAll(&byte, 1, Soon()).ok());
  }
  EXPECT_TRUE(Reaches([] { return refused != 0; }));
  EXPECT_LT(server.counts().open, 4u);
  refuses = false;
  for (TcpStream& client : clients) EXPECT_EQ(client.ReadAll(&byte, 1, Soon()).bytes, 1u);
  EXPECT_EQ(server.counts().open, 4u);
  EXPECT_EQ(server.counts().refused, 0u);
  for (TcpStream& client : clients) client.Close();
  server.Stop(Soon());
}

TEST_P(TcpServerMemoryTest, AStopDoesNotWaitForIt) {
  TcpListener listener;
  ASSERT_FALSE(listener.Listen(OwnLoopback()));
  TcpServer server(std::move(listener), [](TcpStream&) {});
  refused = 0;
  refuses = true;
  ASSERT_TRUE(server.Start());
  TcpStream client;
  ASSERT_FALSE(client.Connect(server.local_address(), Soon()));
  EXPECT_TRUE(Reaches([] { return refused != 0; }));
  server.Stop();
  refuses = false;
  EXPECT_EQ(server.counts().accepted, 1u);
  EXPECT_EQ(server.counts().refused, 1u);
  char byte;
  EXPECT_EQ(client.ReadSome(&byte, 1, Soon()).error, std::errc::connection_reset);
}

}  // namespace
}  // namespace weft::io
