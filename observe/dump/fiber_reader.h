// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// FiberReader: what another thread can say of a fiber while fibers run: its entity, what it waits for, its stack.
//
// No fiber and no worker is stopped. The entities of a chunk are copied at once. For each living fiber its name is
// copied, then its entity again, the used part of its stack, and its entity twice more. If the four copies of the
// entity agree, the fiber did not run while its stack was copied:
//
//   reader                                    the fiber, if it runs meanwhile
//   ------                                    -------------------------------
//   copies the entity, twice                  is woken: kReady, then kRunning
//   copies the stack                          writes to its stack
//   copies the entity, twice; compares        parks again: another ParkStamp (scheduling_group/fiber/wait_reason.h),
//                                             then kParked
//
// Why two and two: a copy is not atomic. It may have a phase and a stamp of different moments: the first one that of a
// park which the fiber has not yet left its stack for, the third one that of the park before. But the first stamp is
// older than the second phase, and the fourth stamp younger than the third phase. A stamp comes before the kParked of
// its park, so between two equal stamps all that is kParked is of that one park.
//
// Invariants
//   DFR1  A stack and a WaitReason are reported only if phase, id, saved stack pointer, name, WaitReason and ParkStamp
//        are the same in all four copies. A ParkStamp differs from park to park. (Each copy is a system call, or the
//        kernel's next part of one; it refers to a page by a full read-modify-write, so the copies are made in order.)
//   DFR2  What is read may be gone: every address that comes from a copy is read by MemoryReader. Entities are never
//        unmapped (entity_pool.h).
//   DFR3  A ready fiber that has begun has no ParkStamp that tells its turns apart. Its stack is copied twice, and
//        reported if both copies are equal. That is likely to be right, not certain: one that yields in a loop may
//        repeat its bytes.
//   DFR4  A name is freed after it has been taken out of the entity: one that is there after it was copied was there.
//
// A fiber that changes too often (kAttempts) is reported without its stack. That of a fiber that runs on a worker is
// copied by the worker (running_stacks.h), as it is then.
// Any thread, one at a time; in a forked child it reads the child's memory. Takes no lock but the loop groups' pool's.
#ifndef WEFT_OBSERVE_DUMP_FIBER_READER_H_
#define WEFT_OBSERVE_DUMP_FIBER_READER_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "weft/observe/dump/memory_reader.h"
#include "weft/observe/dump/running_stacks.h"
#include "weft/observe/dump/stack_table.h"
#include "weft/scheduling_group/fiber/fiber_entity.h"
#include "weft/scheduling_group/fiber/node_arena.h"

namespace weft::observe {

// Of its stack.
enum class StackNote : std::uint8_t {
  kRead,        // FiberRecord::stack is its number
  kNotBegun,    // the fiber has none yet
  kRunning,     // in use by a worker, which was not asked
  kNoAnswer,    // in use by a worker, which did not copy it in time, or was about to leave it
  kChanging,    // it ran each time that it was looked at
  kUnreadable,  // the memory is gone, or cannot be unwound
  kNotWanted,
};

struct FiberRecord {
  std::uint64_t id = 0;
  std::uint64_t entity = 0;
  std::string name;
  std::optional<int> group;  // nothing: it has ended, with the fiber in it
  std::string group_name;    // --fiber_groups; may be empty
  scheduling_group::FiberPhase phase = scheduling_group::FiberPhase::kDead;
  bool is_parked = false;                         // and these two hold
  scheduling_group::WaitReason reason;            // kNone: it does not say
  std::chrono::milliseconds waits_for{0};         // about
  std::optional<std::chrono::nanoseconds> limit;  // until the wait's deadline; below 0: it has passed
  bool in_scope = false;                          // a cancel scope
  bool cancelled = false;
  std::uint64_t owner_address = 0;  // of a mutex: on its owner's stack; 0: none is known
  std::uint64_t stack_low = 0;      // of the used part
  std::uint64_t stack_top = 0;      // 0: it has no stack
  StackNote stack_note = StackNote::kNotWanted;
  int stack = StackTable::kNone;
  bool only_counted = false;  // id, group, phase and stack_top are known, and no more
};

class FiberReader {
 public:
  // stacks: nullptr: they are not wanted. running: nullptr: those of fibers that run are not.
  explicit FiberReader(MemoryReader* memory, StackTable* stacks = nullptr, RunningStacks* running = nullptr);

  // Fibers for which it is false are only counted, without a system call: FiberRecord::only_counted.
  void ReadOnly(std::function<bool(const FiberRecord&)> wanted) { wanted_ = std::move(wanted); }

  // Calls visit(FiberRecord) for each fiber. A snapshot: fibers come and go meanwhile. False: the time was up before
  // all had been looked at.
  template <class Visit>
  bool ForEach(Visit visit, std::chrono::steady_clock::time_point until = kAlways) {
    const std::size_t chunks = scheduling_group::EntityChunkCount();
    for (std::size_t i = 0; i < chunks; ++i) {
      if (until != kAlways && std::chrono::steady_clock::now() >= until) return false;
      if (!CopyChunk(i)) {
        has_missed_ = true;
        continue;
      }
      for (std::size_t j = 0; j < scheduling_group::kEntitiesPerChunk; ++j) {
        if (std::optional<FiberRecord> record = ReadFiber(j)) visit(*std::move(record));
      }
    }
    return true;
  }

  // Names of scheduling groups, each once.
  std::set<std::string> GroupNames() const;

  // Some fibers are missing: their memory may not be read.
  bool has_missed() const { return has_missed_; }

  static constexpr std::chrono::steady_clock::time_point kAlways = std::chrono::steady_clock::time_point::max();

 private:
  using FiberEntity = scheduling_group::FiberEntity;
  static constexpr int kAttempts = 3;
  static constexpr std::size_t kMostStack = 256 * 1024;  // of a stack's used part; the frames beyond are not seen
  static constexpr std::size_t kMostName = 256;

  // A byte-wise copy, to be looked at only.
  struct alignas(FiberEntity) EntityCopy {
    std::byte bytes[sizeof(FiberEntity)];
    const FiberEntity& operator*() const { return *reinterpret_cast<const FiberEntity*>(bytes); }
    const FiberEntity* operator->() const { return &**this; }
  };

  bool CopyChunk(std::size_t chunk);
  // Nothing: there is no fiber in it.
  std::optional<FiberRecord> ReadFiber(std::size_t index);
  void DescribeCopy(const EntityCopy& copy, FiberRecord* record) const;
  // And reads the entity again. False: it cannot.
  bool Describe(const EntityCopy& copy, EntityCopy* again, FiberRecord* record);
  // last: the second copy at first, then the last one. False: the fiber has run meanwhile.
  bool ReadStack(const EntityCopy& first, EntityCopy* last, FiberRecord* record);
  void ReadRunningStack(FiberRecord* record);
  // The first: the stack before.
  bool CopyStack(const FiberRecord& record, std::vector<std::uint64_t>* words, std::array<EntityCopy, 2>* after);
  bool LookTwice(const FiberRecord& record, std::array<EntityCopy, 2>* after);
  void ReadWait(const EntityCopy& copy, FiberRecord* record);
  void FindGroup(const FiberEntity& fiber, FiberRecord* record) const;

  MemoryReader& memory_;
  StackTable* const stacks_;
  RunningStacks* const running_;
  std::function<bool(const FiberRecord&)> wanted_;
  struct Group {
    int id;
    std::string name;
  };
  std::unordered_map<const scheduling_group::SchedulingGroup*, Group> groups_;
  std::unique_ptr<EntityCopy[]> chunk_;
  std::uint64_t chunk_address_ = 0;
  bool has_missed_ = false;
  std::vector<std::uint64_t> words_;        // of a stack
  std::vector<std::uint64_t> words_again_;  // DFR3
};

}  // namespace weft::observe

#endif  // WEFT_OBSERVE_DUMP_FIBER_READER_H_
