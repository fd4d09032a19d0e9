// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// The explorer: runs a scenario's threads as coroutines, decides which goes next, and walks the tree of decisions.
// interleave.h describes it; interleave_memory.h says what a memory operation may do.
#ifndef WEFT_TESTS_TESTING_INTERLEAVE_EXPLORER_H_
#define WEFT_TESTS_TESTING_INTERLEAVE_EXPLORER_H_

#include <array>
#include <atomic>
#include <boost/context/detail/fcontext.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "weft/tests/testing/interleave.h"
#include "weft/tests/testing/interleave_memory.h"
#include "weft/tests/testing/interleave_trace.h"
#include "weft/tests/testing/interleave_visited.h"

namespace weft::model {

inline constexpr int kMaxParkers = 16;

class Explorer final : public OutcomeChooser {
 public:
  Explorer(const Options& options, const std::function<void(Scenario&)>& body);
  ~Explorer();
  Explorer(const Explorer&) = delete;
  Explorer& operator=(const Explorer&) = delete;

  static Explorer* active() { return active_; }

  Result ExploreAll();
  Result ExploreAtRandom(std::uint32_t seed);  // until Options::max_seconds are over
  Result Replay(const char* schedule);

  // What the threads call.
  template <class Access>
  AccessResult Perform(Op op, std::memory_order order, const void* address, std::size_t size, Access access);
  void Fence(std::memory_order order);
  void HeavyFence();
  void Park(int parker, bool may_time_out, bool* timed_out);
  bool Unpark(int parker);
  int NewParker();
  bool FutexWait(const void* address, std::uint32_t expected, bool may_time_out);
  int FutexWake(const void* address, int count);
  void BlockWhile(const void* address, std::uint32_t value);
  void SpinHint();
  int Choose(int count);
  void Note(const char* text) { Record({.op = Op::kNote, .text = text}); }
  [[noreturn]] void Fail(const std::string& message);
  void Check(const char* error) {
    if (error != nullptr) Fail(error);
  }
  void AccessData(const void* address, bool write);

  Memory& memory() { return memory_; }
  int current() const { return current_; }

  int ChooseOutcome(int count) override;
  bool ChooseSpuriousFailure() override;

 private:
  friend class Scenario;
  using Context = boost::context::detail::fcontext_t;
  using Transfer = boost::context::detail::transfer_t;

  enum class Status : std::uint8_t { kRunnable, kParked, kTimedPark, kFutex, kTimedFutex, kBlocked, kSpinning, kEnded };
  enum class Outcome : std::uint8_t { kNone, kReady, kComplete, kPruned, kViolation };

  static constexpr std::uint32_t kEverybody = ~std::uint32_t{0};
  struct Coroutine {
    Context context = nullptr;
    void* stack = nullptr;
    const char* name = "";
    std::function<void()> body;
    Status status = Status::kEnded;
    bool background = false;
    bool starting = false;
    bool woken = false;              // from a futex
    const void* waits_on = nullptr;  // futex, or BlockWhile()
    std::uint32_t blocked_while = 0;
    int parker = -1;
    // Fairness: between two spins of a thread every thread that can run gets a turn. Sets of threads, bit by bit.
    std::uint32_t ran_since_spin = kEverybody;  // since this thread spun last
    std::uint32_t waits_for = 0;                // before it may look again
    bool timed_out_in_vain = false;             // its last wait timed out, and nothing has changed since
  };
  struct ParkerState {
    bool token = false;
    std::uint64_t token_hash = 0;  // which unparks it is of
    Knowledge released;
  };
  struct Choice {
    std::uint16_t count;
    std::uint16_t taken;
  };
  struct Destruction {
    void (*destroy)(void*);
    void* object;
  };

  static void* NewStack();
  static void Entry(Transfer from);
  void JumpTo(Context* save, Context context);
  void ToController();

  bool Search(int preemptions, int weak_choices, Result* result);
  Result SimplestViolation(const Result& first);
  Outcome RunOnce();
  void RunSetup();
  bool NextPath();
  void Finish(Outcome outcome);

  void SchedulePoint(Status status);
  int PickThread();
  void GivesTurn();
  void HasTurn(int thread);
  bool Woken(const Coroutine& thread) const;
  int CollectRunnable(int* threads) const;
  bool CanRun(const Coroutine& thread) const;
  bool MayInterrupt(int thread) const;
  bool QuietEnd();
  void PruneIfVisited();
  void Changed();
  int Decide(int count);
  bool OutOfTime() const;

  void Record(TraceEntry entry);
  std::string Report(const std::string& message);
  std::string Schedule() const;

  static Explorer* active_;

  const Options options_;
  const std::function<void(Scenario&)>& body_;
  Memory memory_;
  VisitedSet* visited_ = nullptr;
  std::chrono::steady_clock::time_point deadline_;
  std::uint64_t executions_ = 0;

  std::array<Coroutine, kMaxThreads> coroutines_;
  Context controller_ = nullptr;
  Context* leaving_ = nullptr;
  int thread_count_ = 0;
  int current_ = 0;
  int steps_ = 0;
  int quiet_rounds_ = 0;
  bool replaying_ = false;
  bool at_random_ = false;
  std::minstd_rand random_;
  unsigned deviate_one_in_ = 2;  // at random: how rarely another choice than the first is made
  Outcome outcome_ = Outcome::kNone;
  std::string message_;

  std::vector<Choice> choices_;
  std::size_t cursor_ = 0;
  int preemption_bound_ = 0;
  int weak_bound_ = 0;
  int preemptions_left_ = 0;
  int weak_left_ = 0;
  int spurious_left_ = 0;

  std::array<ParkerState, kMaxParkers> parkers_;
  int parker_count_ = 0;
  Trace trace_;
  std::vector<Destruction> destructions_;
  std::vector<std::function<void()>> at_end_;
};

template <class Access>
AccessResult Explorer::Perform(Op op, std::memory_order order, const void* address, std::size_t size, Access access) {
  SchedulePoint(Status::kRunnable);
  const AccessResult result = access();
  Record({.op = op,
          .weak = result.weak,
          .done = result.wrote,
          .order = order,
          .address = address,
          .size = size,
          .a = result.read,
          .b = result.written,
          .newest = result.newest});
  Check(result.error);
  if (result.wrote) Changed();
  return result;
}

}  // namespace weft::model

#endif  // WEFT_TESTS_TESTING_INTERLEAVE_EXPLORER_H_
