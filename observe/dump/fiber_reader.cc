// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/observe/dump/fiber_reader.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "weft/base/fiber_clock.h"
#include "weft/observe/dump/lock_owner_place.h"
#include "weft/scheduling_group/fiber/entity_pool.h"
#include "weft/scheduling_group/fiber/group_stacks.h"
#include "weft/scheduling_group/fiber/read_section.h"
#include "weft/scheduling_group/group/group_registry.h"
#include "weft/scheduling_group/group/loop_groups.h"
#include "weft/scheduling_group/group/scheduling_group.h"
#include "weft/timer/queue/timer_node.h"

namespace weft::observe {

using scheduling_group::FiberEntity;
using scheduling_group::FiberPhase;
using scheduling_group::ParkClock;
using scheduling_group::SchedulingGroup;

namespace {

std::uint64_t AddressOf(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

// DFR1
bool AreOfOneTurn(const FiberEntity& a, const FiberEntity& b) {
  return a.state().Load() == b.state().Load() && a.id() == b.id() && a.stack_top() == b.stack_top() &&
         a.context.saved_stack_pointer() == b.context.saved_stack_pointer() && a.next == b.next &&
         a.ready_stamp.word() == b.ready_stamp.word() && a.name_address() == b.name_address();
}
template <class Copies>
bool AreOfOneTurn(const FiberEntity& a, const Copies& copies) {
  return std::all_of(copies.begin(), copies.end(), [&a](const auto& copy) { return AreOfOneTurn(a, *copy); });
}

// DFR4
bool IsTheSameFiber(const FiberEntity& a, const FiberEntity& b) {
  return a.id() == b.id() && a.name_address() == b.name_address();
}

bool HasSavedStack(const FiberEntity& fiber) {
  const FiberPhase phase = fiber.state().Load();
  return (phase == FiberPhase::kParked || phase == FiberPhase::kReady) && fiber.has_stack();
}

}  // namespace

FiberReader::FiberReader(MemoryReader* memory, StackTable* stacks, RunningStacks* running)
    : memory_(*memory),
      stacks_(stacks),
      running_(running),
      chunk_(new EntityCopy[scheduling_group::kEntitiesPerChunk]) {
  const scheduling_group::ReadSection section;
  for (const SchedulingGroup* group : scheduling_group::AllGroups()) {
    groups_.emplace(group, Group{group->id(), group->name()});
  }
  for (const SchedulingGroup* group : scheduling_group::LoopGroups::All()) {
    groups_.emplace(group, Group{group->id(), std::string()});
  }
}

std::set<std::string> FiberReader::GroupNames() const {
  std::set<std::string> names;
  for (const auto& [group, known] : groups_) {
    if (!known.name.empty()) names.insert(known.name);
  }
  return names;
}

bool FiberReader::CopyChunk(std::size_t chunk) {
  chunk_address_ = AddressOf(scheduling_group::EntityChunkAt(chunk));
  return memory_.Read(chunk_.get(), chunk_address_, scheduling_group::kEntitiesPerChunk * sizeof(EntityCopy));
}

std::optional<FiberRecord> FiberReader::ReadFiber(std::size_t index) {
  EntityCopy& copy = chunk_[index];
  FiberRecord record;
  record.entity = chunk_address_ + index * sizeof(FiberEntity);
  if (wanted_ && copy->state().Load() != FiberPhase::kDead) {
    DescribeCopy(copy, &record);
    record.only_counted = !wanted_(record);
    if (record.only_counted) return record;
  }
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (copy->state().Load() == FiberPhase::kDead) return std::nullopt;
    EntityCopy again;
    if (!Describe(copy, &again, &record)) return std::nullopt;
    if (IsTheSameFiber(*copy, *again) && ReadStack(copy, &again, &record)) return record;
    copy = again;
  }
  if (copy->state().Load() == FiberPhase::kDead) return std::nullopt;
  // It runs and waits by turns. DFR1: no reason.
  record.is_parked = false;
  record.stack_note = StackNote::kChanging;
  return record;
}

void FiberReader::FindGroup(const FiberEntity& fiber, FiberRecord* record) const {
  const auto found = groups_.find(fiber.group());
  const bool is_there = found != groups_.end();
  record->group = is_there ? std::optional<int>(found->second.id) : std::nullopt;
  record->group_name = is_there ? found->second.name : std::string();
}

void FiberReader::DescribeCopy(const EntityCopy& copy, FiberRecord* record) const {
  record->id = copy->id();
  record->phase = copy->state().Load();
  FindGroup(*copy, record);
  record->stack_top = AddressOf(copy->stack_top());
}

bool FiberReader::Describe(const EntityCopy& copy, EntityCopy* again, FiberRecord* record) {
  DescribeCopy(copy, record);
  record->in_scope = copy->cancel_word.scoped();
  record->cancelled = copy->cancel_word.pending();
  record->stack_low = AddressOf(copy->context.saved_stack_pointer());
  record->name.clear();
  if (copy->name_address() != nullptr) record->name = memory_.ReadString(AddressOf(copy->name_address()), kMostName);
  return memory_.Read(again, record->entity, sizeof(*again));
}

bool FiberReader::ReadStack(const EntityCopy& first, EntityCopy* last, FiberRecord* record) {
  record->is_parked = record->phase == FiberPhase::kParked;
  record->stack = StackTable::kNone;
  if (!HasSavedStack(*first)) {
    record->stack_note = record->phase == FiberPhase::kReady ? StackNote::kNotBegun : StackNote::kRunning;
    if (record->phase != FiberPhase::kReady) ReadRunningStack(record);
    return true;
  }
  if (!AreOfOneTurn(*first, **last)) return false;
  if (record->is_parked) ReadWait(*last, record);
  record->stack_note = stacks_ != nullptr ? StackNote::kUnreadable : StackNote::kNotWanted;
  std::array<EntityCopy, 2> after;
  const bool copied = stacks_ != nullptr && CopyStack(*record, &words_, &after);
  if (!copied && !LookTwice(*record, &after)) return false;
  *last = after[1];
  if (!AreOfOneTurn(*first, after)) return false;
  if (!copied) return true;
  if (record->phase == FiberPhase::kReady) {  // DFR3
    if (!CopyStack(*record, &words_again_, &after) || words_again_ != words_) return false;
    *last = after[1];
    if (!AreOfOneTurn(*first, after)) return false;
  }
  record->stack = stacks_->Find({.low = record->stack_low, .words = words_});
  if (record->stack != StackTable::kNone) record->stack_note = StackNote::kRead;
  return true;
}

void FiberReader::ReadRunningStack(FiberRecord* record) {
  if (stacks_ == nullptr || running_ == nullptr || !running_->why_not().empty()) return;
  record->stack_note = StackNote::kNoAnswer;
  const StackCopy* const copy = running_->Copy(reinterpret_cast<const FiberEntity*>(record->entity), record->id);
  if (copy == nullptr) return;
  record->stack = stacks_->FindRunning(*copy);
  record->stack_note = record->stack != StackTable::kNone ? StackNote::kRead : StackNote::kUnreadable;
}

bool FiberReader::CopyStack(const FiberRecord& record, std::vector<std::uint64_t>* words,
                            std::array<EntityCopy, 2>* after) {
  const std::uint64_t size = record.stack_top - record.stack_low;
  if (record.stack_low >= record.stack_top || record.stack_low % sizeof(std::uint64_t) != 0 ||
      size > scheduling_group::GroupStacks::kMaxStackSize) {
    return false;
  }
  words->resize(std::min<std::size_t>(size, kMostStack) / sizeof(std::uint64_t));
  const std::array<MemoryReader::Part, 3> parts{
      MemoryReader::Part{words->data(), record.stack_low, words->size() * sizeof(std::uint64_t)},
      MemoryReader::Part{after->data(), record.entity, sizeof(EntityCopy)},
      MemoryReader::Part{after->data() + 1, record.entity, sizeof(EntityCopy)}};
  return memory_.Read(parts);
}

bool FiberReader::LookTwice(const FiberRecord& record, std::array<EntityCopy, 2>* after) {
  const std::array<MemoryReader::Part, 2> parts{
      MemoryReader::Part{after->data(), record.entity, sizeof(EntityCopy)},
      MemoryReader::Part{after->data() + 1, record.entity, sizeof(EntityCopy)}};
  return memory_.Read(parts);
}

void FiberReader::ReadWait(const EntityCopy& copy, FiberRecord* record) {
  record->reason = copy->wait_reason();
  record->waits_for = ParkClock::Since(copy->ready_stamp.word());
  record->limit.reset();
  if (record->reason.timed()) {
    const timer::Tick tick = static_cast<const timer::TimeOut*>(copy->wait_storage_of_copy())->tick;
    if (tick != 0 && tick != timer::kNever) record->limit = timer::BeginOfTick(tick) - FiberClock::now();
  }
  record->owner_address = 0;
  if (const std::uint64_t place = PlaceOfOwner(record->reason); place != 0) {
    std::uint64_t owner = 0;
    if (memory_.Read(&owner, place, sizeof(owner))) record->owner_address = owner;
  }
}

}  // namespace weft::observe
