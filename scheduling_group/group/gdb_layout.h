// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// GdbLayout: where a debugger finds fibers, groups and stacks, in a process or a core, without debug information.
//
// tools/gdb/weft_gdb.py reads the one record of a program, weft_gdb_layout. It finds it by its section,
// .weft_gdb_layout, which holds nothing else: a section is there in stripped programs, too, and in libweft.so. All that
// the script needs stands in the record: addresses of tables, offsets of fields, and where a switch saves registers.
//
// The section .debug_gdb_scripts names the script, at its place once it is installed (WEFT_GDB_SCRIPT, set by
// CMakeLists.txt): gdb loads it by itself if it trusts that folder (docs/diagnosing.md).
//
// Invariants
//   GDB1  A change of a field, of its meaning or of a phase's number raises kVersion and the script's LAYOUT_VERSION. A
//        script meets programs and cores of other versions of Weft, and must say so instead of showing nonsense.
//   GDB2  The record is a constant: it is right before the first fiber runs, and in whatever state a process dies.
#ifndef WEFT_SCHEDULING_GROUP_GROUP_GDB_LAYOUT_H_
#define WEFT_SCHEDULING_GROUP_GROUP_GDB_LAYOUT_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "weft/context/stack/stack_registry.h"
#include "weft/context/switch/saved_registers.h"
#include "weft/scheduling_group/fiber/fiber_entity.h"
#include "weft/scheduling_group/group/group_registry.h"

namespace weft::scheduling_group {

// The script has the fields in the same order: `Record` in weft_gdb.py. No padding.
struct GdbLayout {
  static constexpr std::uint32_t kVersion = 3;

  char magic[16];
  std::uint32_t version;
  std::uint32_t bytes;    // of this record
  char weft_version[16];  // "0.2.0"
  const char* script;     // what .debug_gdb_scripts holds; referred to, so that linkers keep it

  // A table of the chunks of entities: nullptr behind the last one. A chunk is an array of entities.
  FiberEntity* const* chunks;
  std::uint64_t max_chunks;
  std::uint64_t entities_per_chunk;
  std::uint64_t entity_size;
  // Where in an entity: 8 bytes each, but for the state, which is a FiberPhase.
  std::uint64_t entity_id;
  std::uint64_t entity_state;
  std::uint64_t entity_name;  // a pointer; null: none
  std::uint64_t entity_group;
  std::uint64_t entity_stack_top;  // null: it has none
  std::uint64_t entity_saved_sp;   // of a fiber that has a stack and does not run
  std::uint64_t entity_wait;       // of a parked one: a WaitReason (fiber/wait_reason.h)

  // The groups of the runtime, and how many there are. (FiberLoops' groups are found through their fibers.)
  const std::array<SchedulingGroup*, kMaxGroups>* groups;
  const std::atomic<std::size_t>* group_count;
  // Where in a group: 4 bytes each.
  std::uint64_t group_id;
  std::uint64_t group_workers;
  std::uint64_t group_node;  // -1: any
  // Where in a group: the address of its name's characters, and behind it their number (8 bytes each).
  std::uint64_t group_name;

  // The names of a WaitReason's kinds, and where in a mutex and in a shared mutex its owner's address is.
  const char* const* wait_kinds;
  std::uint64_t wait_kind_count;
  std::uint64_t mutex_owner;
  std::uint64_t shared_mutex_owner;

  const context::StackTableLayout* stacks;
  context::SavedRegisters saved;
};

extern "C" __attribute__((visibility("hidden"), section(".weft_gdb_layout"))) const GdbLayout weft_gdb_layout;

// What makes workers refers to the record, so that linkers keep it.
inline void KeepGdbLayout() noexcept { asm volatile("" : : "r"(&weft_gdb_layout)); }

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_GROUP_GDB_LAYOUT_H_
