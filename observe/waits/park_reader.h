// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// ParkReader: the parks of all fibers, copied while fibers run.
//
// A Park is one wait of one fiber. Whoever reads a fiber twice and finds the same park both times knows that the fiber
// was parked, in this wait, at each moment between the two (a ParkStamp differs from park to park:
// scheduling_group/fiber/wait_reason.h). So what is read between two looks at several fibers, each of which finds the
// same parks, was so at one instant:
//
//   look at all            read what they wait for, and who owns it            look at all again
//   |-- every fiber that is found the same was parked from here ... to here --|
//
// One thread at a time. Stops nobody, and takes no lock.
#ifndef WEFT_OBSERVE_WAITS_PARK_READER_H_
#define WEFT_OBSERVE_WAITS_PARK_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "weft/observe/dump/memory_reader.h"
#include "weft/scheduling_group/fiber/fiber_entity.h"
#include "weft/scheduling_group/fiber/node_arena.h"
#include "weft/scheduling_group/fiber/wait_reason.h"

namespace weft::observe {

struct Park {
  std::uint64_t entity = 0;
  std::uint64_t id = 0;
  std::uint64_t stamp = 0;
  scheduling_group::WaitReason reason;
  std::uint64_t stack_top = 0;
  std::uint64_t stack_low = 0;        // of the used part
  std::uint64_t name = 0;             // its address; 0: it has none
  std::uint64_t owner = 0;            // its FiberOwner; 0: none, or not the one of its start
  std::uint64_t innermost_scope = 0;  // a CancelNode; 0: it is in none
  bool may_be_interrupted = false;    // it is cancelled, or in a scope with a deadline

  // Of the same fiber, which has not run between the two looks.
  bool operator==(const Park& other) const {
    return entity == other.entity && id == other.id && stamp == other.stamp && reason.word() == other.reason.word() &&
           stack_top == other.stack_top && stack_low == other.stack_low;
  }
};

class ParkReader {
 public:
  explicit ParkReader(MemoryReader* memory);

  // The parks of all fibers, by their entities' places.
  struct All {
    std::vector<Park> parks;
    std::vector<Park> others;  // fibers that are ready, run, or are on their way to a park: no waits
    bool complete = true;      // false: some cannot be read
  };
  All ReadAll();

  // What the fiber of a park does now; nothing: it is not parked. `stack`: gets the used part of its stack, if that can
  // be read, as it was when the park was read; nullptr: it is not wanted.
  std::optional<Park> ReadAgain(const Park& park, std::vector<std::uint64_t>* stack = nullptr);

  MemoryReader& memory() noexcept { return memory_; }

 private:
  using FiberEntity = scheduling_group::FiberEntity;
  static constexpr std::size_t kMostStack = 256 * 1024;

  // A byte-wise copy, to be looked at only.
  struct alignas(FiberEntity) EntityCopy {
    std::byte bytes[sizeof(FiberEntity)];
    const FiberEntity& operator*() const { return *reinterpret_cast<const FiberEntity*>(bytes); }
    const FiberEntity* operator->() const { return &**this; }
  };

  static Park MakePark(std::uint64_t entity, const FiberEntity& copy);

  MemoryReader& memory_;
  const std::unique_ptr<EntityCopy[]> chunk_;
};

}  // namespace weft::observe

#endif  // WEFT_OBSERVE_WAITS_PARK_READER_H_
