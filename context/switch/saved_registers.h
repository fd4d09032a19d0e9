// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// SavedRegisters: where the registers of a suspended flow lie, for debuggers (scheduling_group/group/gdb_layout.h).
//
// Boost.Context's jump_fcontext() saves the callee-saved registers on the flow's stack, and the stack pointer that a
// Context keeps points to them. All other registers are lost to the flow anyway: the jump is a call.
//
// Boost does not promise this layout. tests/context/gdb_backtrace.cmake and tests/tools/weft_gdb_test.py fail when
// another version of Boost has another one. With a shadow stack (CET) it has one word more; Weft refuses to run with
// one (InitThreadState()). Of the aarch64 layout d8 to d15, which lie below x19, are left out.
#ifndef WEFT_CONTEXT_SWITCH_SAVED_REGISTERS_H_
#define WEFT_CONTEXT_SWITCH_SAVED_REGISTERS_H_

#include <cstdint>

namespace weft::context {

struct SavedRegister {
  char name[8];  // gdb's name; empty: behind the last one
  std::uint64_t offset;
};

struct SavedRegisters {
  char stack_pointer[8];  // its name; its value is the saved one plus `size`
  std::uint64_t size;
  SavedRegister registers[16];
};

#if defined(__x86_64__)
inline constexpr SavedRegisters kSavedRegisters = {
    .stack_pointer = "rsp",
    .size = 0x48,
    .registers = {
        {"r12", 0x10}, {"r13", 0x18}, {"r14", 0x20}, {"r15", 0x28}, {"rbx", 0x30}, {"rbp", 0x38}, {"rip", 0x40}}};
#elif defined(__aarch64__)
inline constexpr SavedRegisters kSavedRegisters = {.stack_pointer = "sp",
                                                   .size = 0xb0,
                                                   .registers = {{"x19", 0x40},
                                                                 {"x20", 0x48},
                                                                 {"x21", 0x50},
                                                                 {"x22", 0x58},
                                                                 {"x23", 0x60},
                                                                 {"x24", 0x68},
                                                                 {"x25", 0x70},
                                                                 {"x26", 0x78},
                                                                 {"x27", 0x80},
                                                                 {"x28", 0x88},
                                                                 {"x29", 0x90},
                                                                 {"x30", 0x98},
                                                                 {"pc", 0xa0}}};
#endif

}  // namespace weft::context

#endif  // WEFT_CONTEXT_SWITCH_SAVED_REGISTERS_H_
