// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// FdSlotPool: the free FdSlots of the process, by the NUMA node that their memory lies on, their home.
//
//     a thread's cache, for each home      hot: up to kBatch slots    cold: one batch, or none
//                                             ^  |
//                                  a batch at a time, under the store's lock
//                                             |  v
//     the home's store                     batches
//
// A connection takes a slot and puts it back, so a thread that serves many pays a visit to a store for each kBatch of
// them at most, and two batches keep it from visiting at each call. A slot goes home whoever puts it back: a thread's
// lists have slots of one home each, and it takes from those of its own node only.
//
// Free slots are linked through themselves. Whole batches change hands, so that a store's lock is held for three
// pointers, however many slots there are. A thread that ends gives back what it has, in smaller batches.
//
// Invariants
//   FP1  A free slot is in exactly one place: a list of one thread, or a batch of its home's store.
//   FP2  The home of a slot is where its chunk was mapped, and never changes. A list and a store have slots of one home
//        only, so Take() returns memory of the caller's node, whichever threads have used it before. (A preference: a
//        node may have no memory left, and a thread that is moved uses up its slots of the former node.)
//   FP3  Between two visits of a thread to a store lie kBatch Take()s or kBatch Put()s, unless a thread that has ended
//        left a smaller batch.
//   FP4  Chunks are never given back (FD6).
// The users of a slot order its uses themselves (FD3): the cache is of one thread, the store's lock does the rest.
// Rejected: one list for the process (two locks a connection, and slots come to lie on the other node); a list for each
// node with a lock, and no caches (two locks a connection); for each group (a group's fibers end on others' workers,
// and a plain thread has none).
#ifndef WEFT_IO_REACTOR_FD_SLOT_POOL_H_
#define WEFT_IO_REACTOR_FD_SLOT_POOL_H_

#include <cstddef>
#include <cstdint>

#include "weft/scheduling_group/fiber/node_arena.h"

namespace weft::io {

class FdSlot;

class FdSlotPool {
 public:
  // A NUMA node by its number among entity arenas, or kAnyNodeArena.
  using Home = scheduling_group::NodeArenaIndex;
  static constexpr std::uint32_t kBatch = 32;

  // Any thread. Of the caller's node: the one of the worker's group, or where the thread runs if it has no group or this
  // has no node, as that of a FiberLoop. Throws std::bad_alloc.
  static FdSlot* Take();
  // Needs no memory.
  static void Put(FdSlot* slot) noexcept;

  // For tests.
  static FdSlot* TakeOf(Home home);
  static Home HomeOf(const FdSlot& slot) noexcept;
  // How often the lock of a home's store was taken.
  static std::uint64_t Visits(Home home) noexcept;

 private:
  struct Batch;
  class Store;
  class Cache;

  static Store& StoreOf(Home home) noexcept;
  static Batch NewChunk(Home home);
  static FdSlot* TakeWithoutCache(Home home);
};

}  // namespace weft::io

#endif  // WEFT_IO_REACTOR_FD_SLOT_POOL_H_
