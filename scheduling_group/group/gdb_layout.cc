// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/group/gdb_layout.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <type_traits>

#include "weft/scheduling_group/fiber/fiber_state.h"
#include "weft/scheduling_group/fiber/node_arena.h"
#include "weft/scheduling_group/group/scheduling_group.h"
#include "weft/version.h"

// A byte that says that the name of a file with Python follows, and the name. (Assembler: AddressSanitizer would pad a
// variable, and gdb take the padding for a bad entry.)
extern "C" __attribute__((visibility("hidden"))) const char weft_gdb_script[];
asm(".pushsection .debug_gdb_scripts,\"a\",%progbits\n"
    ".globl weft_gdb_script\n"
    ".hidden weft_gdb_script\n"
    "weft_gdb_script: .byte 1\n"
    ".asciz \"" WEFT_GDB_SCRIPT
    "\"\n"
    ".popsection");

namespace weft::scheduling_group {

// offsetof of classes with private fields: conditionally supported, and so it is by g++ and clang.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"

// A friend of what it looks into.
struct GdbOffsets {
  static constexpr std::size_t kId = offsetof(FiberEntity, id_);
  static constexpr std::size_t kState = offsetof(FiberEntity, state_);
  static constexpr std::size_t kName = offsetof(FiberEntity, name_);
  static constexpr std::size_t kGroup = offsetof(FiberEntity, group_);
  static constexpr std::size_t kStackTop = offsetof(FiberEntity, stack_top_);
  static constexpr std::size_t kSavedSp = offsetof(FiberEntity, context) + context::Context::SavedStackPointerOffset();
  static constexpr std::size_t kWait = offsetof(FiberEntity, next);
  static constexpr std::size_t kGroupId = offsetof(SchedulingGroup, id_);
  static constexpr std::size_t kGroupWorkers = offsetof(SchedulingGroup, options_) + offsetof(GroupOptions, workers);
  static constexpr std::size_t kGroupNode = offsetof(SchedulingGroup, options_) + offsetof(GroupOptions, node);
  static constexpr std::size_t kGroupName = offsetof(SchedulingGroup, options_) + offsetof(GroupOptions, name);

  // How the script reads them. Another size or number: another kVersion (GDB1).
  static_assert(sizeof(FiberEntity::id_) == 8 && sizeof(FiberEntity::state_) == 4 && sizeof(FiberEntity::name_) == 8 &&
                sizeof(FiberEntity::group_) == 8 && sizeof(FiberEntity::stack_top_) == 8);
  static_assert(sizeof(SchedulingGroup::id_) == 4 && sizeof(GroupOptions::workers) == 4 &&
                sizeof(GroupOptions::node) == 4 && sizeof(group_count) == 8);
  // libstdc++'s: the address, the number of characters, and room for short ones.
  static_assert(sizeof(std::string) == 32 && std::is_same_v<decltype(GroupOptions::name), std::string>);
};
#pragma GCC diagnostic pop

static_assert(static_cast<int>(FiberPhase::kDead) == 0 && static_cast<int>(FiberPhase::kRunning) == 1 &&
              static_cast<int>(FiberPhase::kParking) == 2 && static_cast<int>(FiberPhase::kNotified) == 3 &&
              static_cast<int>(FiberPhase::kParked) == 4 && static_cast<int>(FiberPhase::kReady) == 5);
static_assert(GdbLayout::kVersion == 3 && sizeof(GdbLayout) == 224 + sizeof(context::SavedRegisters),
              "weft_gdb.py has the same fields (GDB1)");

extern "C" constinit const GdbLayout weft_gdb_layout = {.magic = "weft gdb layout",
                                                        .version = GdbLayout::kVersion,
                                                        .bytes = sizeof(GdbLayout),
                                                        .weft_version = WEFT_VERSION,
                                                        .script = weft_gdb_script,
                                                        .chunks = weft_fiber_chunks,
                                                        .max_chunks = kMaxEntityChunks,
                                                        .entities_per_chunk = kEntitiesPerChunk,
                                                        .entity_size = sizeof(FiberEntity),
                                                        .entity_id = GdbOffsets::kId,
                                                        .entity_state = GdbOffsets::kState,
                                                        .entity_name = GdbOffsets::kName,
                                                        .entity_group = GdbOffsets::kGroup,
                                                        .entity_stack_top = GdbOffsets::kStackTop,
                                                        .entity_saved_sp = GdbOffsets::kSavedSp,
                                                        .entity_wait = GdbOffsets::kWait,
                                                        .groups = &all_groups,
                                                        .group_count = &group_count,
                                                        .group_id = GdbOffsets::kGroupId,
                                                        .group_workers = GdbOffsets::kGroupWorkers,
                                                        .group_node = GdbOffsets::kGroupNode,
                                                        .group_name = GdbOffsets::kGroupName,
                                                        .wait_kinds = kWaitKindNames,
                                                        .wait_kind_count = std::size(kWaitKindNames),
                                                        .mutex_owner = kOwnerInMutex,
                                                        .shared_mutex_owner = kOwnerInSharedMutex,
                                                        .stacks = &context::stack_table_layout,
                                                        .saved = context::kSavedRegisters};

}  // namespace weft::scheduling_group
