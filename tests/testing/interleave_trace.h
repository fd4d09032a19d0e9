// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// The steps of one execution, to read after a violation.
#ifndef WEFT_TESTS_TESTING_INTERLEAVE_TRACE_H_
#define WEFT_TESTS_TESTING_INTERLEAVE_TRACE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace weft::model {

enum class Op : std::uint8_t {
  kLoad,
  kStore,
  kExchange,
  kAdd,
  kSub,
  kAnd,
  kOr,
  kXor,
  kCompareExchange,
  kFence,
  kForcedFence,
  kDataRead,
  kDataWrite,
  kPark,
  kParked,
  kTimedOut,
  kUnpark,
  kFutexWait,
  kFutexWoken,
  kFutexWake,
  kBlocked,
  kSpin,
  kChoose,
  kNote,
  kEnded,
};

struct TraceEntry {
  Op op = Op::kNote;
  std::uint8_t thread = 0;
  bool weak = false;
  bool done = false;  // compare_exchange: it succeeded
  std::memory_order order = std::memory_order_relaxed;
  const void* address = nullptr;
  std::size_t size = 0;
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  std::uint64_t newest = 0;
  const char* text = "";
};

class Trace {
 public:
  Trace() { entries_.reserve(kMaxEntries); }

  void Clear() {
    entries_.clear();
    names_.clear();
  }

  // Allocates nothing. Drops what comes after kMaxEntries.
  void Record(const TraceEntry& entry) {
    if (entries_.size() < kMaxEntries) entries_.push_back(entry);
  }

  // Names the bytes from `address`. Of several names the shortest range's counts.
  void Name(const void* address, std::size_t size, std::string name);

  // One line for each step; `threads` are the names of the threads. Steps of thread 0 are left out but for notes.
  std::string Text(const std::vector<std::string>& threads) const;

 private:
  struct NamedRange {
    const char* begin;
    std::size_t size;
    std::string name;
  };
  static constexpr std::size_t kMaxEntries = 8192;

  std::string NameOf(const void* address, std::size_t size) const;
  std::string Describe(const TraceEntry& entry) const;

  std::vector<TraceEntry> entries_;
  std::vector<NamedRange> names_;
};

}  // namespace weft::model

#endif  // WEFT_TESTS_TESTING_INTERLEAVE_TRACE_H_
