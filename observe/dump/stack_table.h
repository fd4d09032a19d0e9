// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// StackTable: the different stacks of a dump, each once, with a number.
//
// Of 100,000 fibers most stand at the same few places, and unwinding a stack takes 20 us. So the table remembers, of
// each stack it has unwound, in which words of the copy the return addresses lay. A copy of the same size that has the
// same addresses in the same words has the same frames: where a frame's caller is depends on the address in the frame
// and on the stack pointer, which that address fixes. (By chance, too, where frames have varying sizes and old
// addresses lie on the stack: all of them would have to lie at the places of another stack.)
#ifndef WEFT_OBSERVE_DUMP_STACK_TABLE_H_
#define WEFT_OBSERVE_DUMP_STACK_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "weft/observe/dump/stack_unwinder.h"

namespace weft::observe {

class StackTable {
 public:
  // most_frames: of a stack.
  StackTable(StackUnwinder* unwinder, std::size_t most_frames) : unwinder_(*unwinder), most_frames_(most_frames) {}

  // Its number; the same for the same frames. kNone: it cannot be unwound.
  static constexpr int kNone = -1;
  int Find(const StackCopy& copy);
  // The same of one that runs: always unwound.
  int FindRunning(const StackCopy& copy);

  std::size_t size() const { return stacks_.size(); }
  // The addresses, the innermost first.
  const std::vector<std::uint64_t>& operator[](std::size_t number) const { return *stacks_[number]; }

  std::size_t unwound() const { return unwound_; }  // How often it was not enough to look.

 private:
  using Addresses = std::vector<std::uint64_t>;
  struct Shape {
    std::vector<StackFrame> frames;
    int number;
  };

  int NumberOf(const std::vector<StackFrame>& frames);
  static bool Fits(const Shape& shape, const StackCopy& copy);

  StackUnwinder& unwinder_;
  const std::size_t most_frames_;
  std::map<Addresses, int> numbers_;
  std::vector<const Addresses*> stacks_;
  std::unordered_map<std::size_t, std::vector<Shape>> shapes_;  // by the size of the copy
  std::size_t unwound_ = 0;
};

}  // namespace weft::observe

#endif  // WEFT_OBSERVE_DUMP_STACK_TABLE_H_
