// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// StackUnwinder: the frames of a fiber, from a copy of the used part of its stack, and their names.
//
// The registers of a suspended fiber are those that the switch has saved at the bottom of the stack (jump_fcontext() of
// Boost.Context); those of one that runs come with the copy (running_stacks.h). From there elfutils' libdwfl walks by
// the unwind tables of the program and its libraries, reading the copy. Nothing is run or stopped. Names come
// from the symbol tables of the files, file and line from their debug information, if they have it; nothing is fetched
// from elsewhere, nor is a process started.
//
// libdw.so.1 is loaded when the first unwinder is made: programs that never dump are not linked with it. Without it, or
// where Weft was built without its headers, there are no frames, and why_not() says so.
//
// Cost: 10 ms and more for each unwinder (it reads the list of mappings, and the files when they are needed), some 20
// us for a stack (stack_table.h makes this rare), some 10 us for a name. One thread at a time; each unwinder has its
// own state.
// Rejected: libunwind (the tables of a copy need accessors that its headers do not show, and it knows no names of
// functions that are not exported); frame pointers (programs are compiled without).
#ifndef WEFT_OBSERVE_DUMP_STACK_UNWINDER_H_
#define WEFT_OBSERVE_DUMP_STACK_UNWINDER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace weft::observe {

// The used part of a stack: `words` lie at `low` and above.
struct StackCopy {
  std::uint64_t low = 0;
  std::span<const std::uint64_t> words;
  // Of a flow that runs: its registers in DWARF's order, and where it is. Empty: it is suspended, and its registers lie
  // on the stack.
  std::span<const std::uint64_t> registers = {};
  std::uint64_t pc = 0;
};

struct StackFrame {
  // Where it goes on. Of one that runs, the innermost: one more, as if it were a call that returns there.
  std::uint64_t address = 0;
  // Where that address was found: its word in the copy. kNowhere: it is not known.
  std::size_t word = 0;
  static constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);
};

struct FrameName {
  std::string function;  // "" if it has none
  std::string file;      // of the source; "" if it is not known
  int line = 0;
  std::string module;  // the program or library
};

class StackUnwinder {
 public:
  // wanted: false: it cannot unwind, and loads nothing.
  explicit StackUnwinder(bool wanted = true);
  StackUnwinder(const StackUnwinder&) = delete;
  StackUnwinder& operator=(const StackUnwinder&) = delete;
  ~StackUnwinder();

  // "": it can unwind.
  const std::string& why_not() const { return why_not_; }

  // The innermost first, at most `most`. Empty: it cannot.
  std::vector<StackFrame> Unwind(const StackCopy& copy, std::size_t most);
  // source: file and line, too. For the call that returns to `address`.
  FrameName Name(std::uint64_t address, bool source);

 private:
  class Session;

  std::unique_ptr<Session> session_;
  std::string why_not_;
};

}  // namespace weft::observe

#endif  // WEFT_OBSERVE_DUMP_STACK_UNWINDER_H_
