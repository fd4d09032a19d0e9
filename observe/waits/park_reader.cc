// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/observe/waits/park_reader.h"

#include <algorithm>
#include <array>

#include "weft/scheduling_group/fiber/fiber_state.h"
#include "weft/scheduling_group/fiber/group_stacks.h"

namespace weft::observe {

using scheduling_group::FiberPhase;

namespace {

std::uint64_t AddressOf(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

}  // namespace

ParkReader::ParkReader(MemoryReader* memory)
    : memory_(*memory), chunk_(new EntityCopy[scheduling_group::kEntitiesPerChunk]) {}

Park ParkReader::MakePark(std::uint64_t entity, const FiberEntity& copy) {
  Park park;
  park.entity = entity;
  park.id = copy.id();
  park.stamp = copy.ready_stamp.word();
  park.reason = copy.wait_reason();
  park.stack_top = AddressOf(copy.stack_top());
  park.stack_low = AddressOf(copy.context.saved_stack_pointer());
  park.name = AddressOf(copy.name_address());
  park.owner = AddressOf(copy.owner());
  park.innermost_scope = AddressOf(copy.innermost_scope());
  park.may_be_interrupted = copy.cancel_word.pending_or_timed();
  return park;
}

ParkReader::All ParkReader::ReadAll() {
  All all;
  const std::size_t chunks = scheduling_group::EntityChunkCount();
  for (std::size_t i = 0; i < chunks; ++i) {
    const std::uint64_t address = AddressOf(scheduling_group::EntityChunkAt(i));
    constexpr std::size_t kCount = scheduling_group::kEntitiesPerChunk;
    if (!memory_.Read(chunk_.get(), address, kCount * sizeof(EntityCopy))) {
      all.complete = false;
      continue;
    }
    for (std::size_t j = 0; j < kCount; ++j) {
      const EntityCopy& copy = chunk_[j];
      const FiberPhase phase = copy->state().Load();
      if (phase == FiberPhase::kDead) continue;
      (phase == FiberPhase::kParked ? all.parks : all.others)
          .push_back(MakePark(address + j * sizeof(FiberEntity), *copy));
    }
  }
  return all;
}

std::optional<Park> ParkReader::ReadAgain(const Park& park, std::vector<std::uint64_t>* stack) {
  EntityCopy copy;
  const std::uint64_t size = park.stack_top - park.stack_low;
  bool stack_read = false;
  if (stack != nullptr && park.stack_low < park.stack_top && park.stack_low % sizeof(std::uint64_t) == 0 &&
      size <= scheduling_group::GroupStacks::kMaxStackSize) {
    stack->resize(std::min<std::size_t>(size, kMostStack) / sizeof(std::uint64_t));
    // The entity after its stack: if it is of the same park, so is the stack.
    const std::array<MemoryReader::Part, 2> parts{
        MemoryReader::Part{stack->data(), park.stack_low, stack->size() * sizeof(std::uint64_t)},
        MemoryReader::Part{&copy, park.entity, sizeof(copy)}};
    stack_read = memory_.Read(parts);
  }
  if (!stack_read) {
    if (stack != nullptr) stack->clear();
    if (!memory_.Read(&copy, park.entity, sizeof(copy))) return std::nullopt;
  }
  if (copy->state().Load() != FiberPhase::kParked) return std::nullopt;
  return MakePark(park.entity, *copy);
}

}  // namespace weft::observe
