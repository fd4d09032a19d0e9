// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
#include "weft/tests/testing/interleave.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <boost/context/detail/fcontext.hpp>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "weft/tests/testing/interleave_memory.h"
#include "weft/tests/testing/model_atomic.h"

namespace weft::model {
namespace {

using boost::context::detail::fcontext_t;
using boost::context::detail::jump_fcontext;
using boost::context::detail::make_fcontext;
using boost::context::detail::transfer_t;

constexpr std::size_t kStackSize = std::size_t{256} << 10;
constexpr std::size_t kArenaSize = std::size_t{1} << 20;
constexpr int kMaxParkers = 16;
constexpr int kMaxQuietRounds = 3;  // of all threads spinning while nothing changes
constexpr int kMaxTrace = 8192;
constexpr std::size_t kMaxVisited = std::size_t{1} << 23;  // points remembered: 128 MiB

[[noreturn]] void Die(const char* what) {
  std::fprintf(stderr, "model: %s\n", what);
  std::abort();
}

// --- Memory of one execution: everything that `new` gives while a scenario runs, taken back as a whole. ---

class Arena {
 public:
  bool Contains(const void* p) const noexcept {
    return base_ != nullptr && base_ <= static_cast<const char*>(p) && static_cast<const char*>(p) < base_ + kArenaSize;
  }
  void Reset() {
    if (base_ == nullptr) {
      base_ = static_cast<char*>(std::aligned_alloc(4096, kArenaSize));
      if (base_ == nullptr) Die("no memory for the arena");
    }
    used_ = 0;
  }
  const void* end() const { return base_ + used_; }
  // The size stands in front of each block: Freed() needs it.
  void* Allocate(std::size_t size, std::size_t alignment) {
    std::size_t at = used_ + sizeof(std::size_t);
    at = (at + alignment - 1) & ~(alignment - 1);
    if (at + size > kArenaSize) Die("the scenario needs more memory than the arena has: raise kArenaSize");
    used_ = at + size;
    std::memcpy(base_ + at - sizeof(std::size_t), &size, sizeof(size));
    return base_ + at;
  }
  static std::size_t SizeOf(const void* block) {
    std::size_t size = 0;
    std::memcpy(&size, static_cast<const char*>(block) - sizeof(std::size_t), sizeof(size));
    return size;
  }

 private:
  char* base_ = nullptr;
  std::size_t used_ = 0;
};

Arena arena;
bool arena_active = false;

// --- Points of the execution that were explored, each with the budgets that were left. ---

class VisitedSet {
 public:
  struct Budget {
    std::uint8_t preemptions;
    std::uint8_t weak_choices;
  };

  VisitedSet() : entries_(1024) {}

  // False: was visited with budgets at least as large. All that can follow has been, or is being, explored.
  bool Insert(std::uint64_t key, Budget budget) {
    if (key == 0) key = 1;
    std::size_t i = key & (entries_.size() - 1);
    for (; entries_[i].key != 0; i = (i + 1) & (entries_.size() - 1)) {
      if (entries_[i].key != key) continue;
      Budget& known = entries_[i].budget;
      if (known.preemptions >= budget.preemptions && known.weak_choices >= budget.weak_choices) return false;
      if (budget.preemptions >= known.preemptions && budget.weak_choices >= known.weak_choices) known = budget;
      return true;
    }
    if (count_ >= kMaxVisited) return true;  // Explored again each time: slower, as complete.
    entries_[i] = {key, budget};
    if (++count_ * 2 > entries_.size()) Grow();
    return true;
  }
  std::uint64_t count() const { return count_; }

 private:
  struct Entry {
    std::uint64_t key = 0;
    Budget budget{};
  };
  void Grow() {
    std::vector<Entry> old(entries_.size() * 2);
    old.swap(entries_);
    for (const Entry& entry : old) {
      if (entry.key == 0) continue;
      std::size_t i = entry.key & (entries_.size() - 1);
      while (entries_[i].key != 0) i = (i + 1) & (entries_.size() - 1);
      entries_[i] = entry;
    }
  }
  std::vector<Entry> entries_;
  std::size_t count_ = 0;
};

// --- The trace ---

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

constexpr const char* kOpNames[] = {"load",
                                    "store",
                                    "exchange",
                                    "fetch_add",
                                    "fetch_sub",
                                    "fetch_and",
                                    "fetch_or",
                                    "fetch_xor",
                                    "compare_exchange",
                                    "fence",
                                    "reads",
                                    "writes",
                                    "parks",
                                    "is unparked",
                                    "times out",
                                    "unparks",
                                    "futex wait",
                                    "is woken",
                                    "futex wake",
                                    "is blocked by",
                                    "spins",
                                    "chooses",
                                    "",
                                    "ends"};

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

const char* OrderName(std::memory_order order) {
  switch (order) {
    case std::memory_order_relaxed:
      return "relaxed";
    case std::memory_order_consume:
      return "consume";
    case std::memory_order_acquire:
      return "acquire";
    case std::memory_order_release:
      return "release";
    case std::memory_order_acq_rel:
      return "acq_rel";
    case std::memory_order_seq_cst:
      return "seq_cst";
  }
  return "?";
}

std::string Number(std::uint64_t value) {
  char text[32];
  std::snprintf(text, sizeof(text), value < 100'000 ? "%" PRIu64 : "0x%" PRIx64, value);
  return text;
}

int FromEnvironment(const char* variable, int otherwise) {
  const char* text = std::getenv(variable);
  return text != nullptr && *text != '\0' ? std::atoi(text) : otherwise;
}

std::uint8_t AsBudget(int bound) { return bound < 0 || bound > 254 ? 255 : static_cast<std::uint8_t>(bound); }

}  // namespace

// --- The explorer ---

class Explorer final : public OutcomeChooser {
 public:
  Explorer(const Options& options, const std::function<void(Scenario&)>& body)
      : options_(options), body_(body), memory_(this), started_at_(std::chrono::steady_clock::now()) {
    choices_.reserve(options.max_steps * 3);
    trace_.reserve(kMaxTrace);
    for (Coroutine& coroutine : coroutines_) coroutine.stack = NewStack();
  }
  ~Explorer() {
    for (Coroutine& coroutine : coroutines_) munmap(coroutine.stack, kStackSize);
  }
  Explorer(const Explorer&) = delete;
  Explorer& operator=(const Explorer&) = delete;

  static Explorer* active() { return active_; }

  Result ExploreAll();
  Result Replay(const char* schedule);

  // What the threads call.
  template <class Access>
  AccessResult Perform(Op op, std::memory_order order, const void* address, std::size_t size, Access access);
  void Fence(std::memory_order order);
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
  enum class Status : std::uint8_t { kRunnable, kParked, kTimedPark, kFutex, kTimedFutex, kBlocked, kSpinning, kEnded };
  enum class Outcome : std::uint8_t { kNone, kReady, kComplete, kPruned, kViolation };

  static constexpr std::uint32_t kEverybody = ~std::uint32_t{0};
  struct Coroutine {
    fcontext_t context = nullptr;
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
  struct NamedRange {
    const char* begin;
    std::size_t size;
    const char* name;
  };
  struct Destruction {
    void (*destroy)(void*);
    void* object;
  };

  static void* NewStack();
  static void Entry(transfer_t from);
  void JumpTo(fcontext_t* save, fcontext_t context);
  void ToController();

  bool Search(int preemptions, int weak_choices, Result* result);
  Outcome RunOnce();
  void RunSetup();
  bool NextPath();
  void Finish(Outcome outcome);

  void SchedulePoint(Status status);
  int PickThread();
  void HasTurn(int thread);
  int CollectRunnable(int* threads) const;
  bool CanRun(const Coroutine& thread) const;
  bool MayInterrupt(int thread) const;
  bool QuietEnd();
  void PruneIfVisited();
  void Changed();
  int Decide(int count);
  bool OutOfTime() const;

  void Record(TraceEntry entry);
  std::string Report(const std::string& message) const;
  void FormatEntry(const TraceEntry& entry, std::string* text) const;
  std::string NameOf(const void* address, std::size_t size) const;
  std::string Schedule() const;

  static Explorer* active_;

  const Options options_;
  const std::function<void(Scenario&)>& body_;
  Memory memory_;
  VisitedSet* visited_ = nullptr;
  const std::chrono::steady_clock::time_point started_at_;
  std::uint64_t executions_ = 0;

  std::array<Coroutine, kMaxThreads> coroutines_;
  fcontext_t controller_ = nullptr;
  fcontext_t* leaving_ = nullptr;
  int thread_count_ = 0;
  int current_ = 0;
  int steps_ = 0;
  int quiet_rounds_ = 0;
  bool replaying_ = false;
  Outcome outcome_ = Outcome::kNone;
  std::string message_;

  std::vector<Choice> choices_;
  std::size_t cursor_ = 0;
  int preemption_bound_ = 0;
  int preemptions_left_ = 0;
  int weak_left_ = 0;
  int spurious_left_ = 0;

  std::array<ParkerState, kMaxParkers> parkers_;
  int parker_count_ = 0;
  std::vector<TraceEntry> trace_;
  std::vector<NamedRange> names_;
  std::vector<Destruction> destructions_;
  std::vector<std::function<void()>> at_end_;
};

Explorer* Explorer::active_ = nullptr;

namespace {

// The explorer's own bookkeeping is not the scenario's memory.
class OutsideArena {
 public:
  OutsideArena() : was_active_(arena_active) { arena_active = false; }
  ~OutsideArena() { arena_active = was_active_; }
  OutsideArena(const OutsideArena&) = delete;
  OutsideArena& operator=(const OutsideArena&) = delete;

 private:
  const bool was_active_;
};

}  // namespace

// --- Coroutines ---

void* Explorer::NewStack() {
  void* stack = mmap(nullptr, kStackSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (stack == MAP_FAILED) Die("no memory for a stack");
  return stack;
}

void Explorer::JumpTo(fcontext_t* save, fcontext_t context) {
  leaving_ = save;
  const transfer_t from = jump_fcontext(context, this);
  *leaving_ = from.fctx;  // Whoever jumped to us.
}

void Explorer::ToController() { JumpTo(&coroutines_[current_].context, controller_); }

void Explorer::Entry(transfer_t from) {
  auto* self = static_cast<Explorer*>(from.data);
  *self->leaving_ = from.fctx;
  if (self->current_ == 0) {
    self->RunSetup();
  } else {
    self->coroutines_[self->current_].body();
    self->Record({.op = Op::kEnded});
    self->SchedulePoint(Status::kEnded);
  }
  Die("a thread that has ended was resumed");
}

void Explorer::Finish(Outcome outcome) {
  outcome_ = outcome;
  ToController();
}

void Explorer::Fail(const std::string& message) {
  {
    OutsideArena outside;
    message_ = std::string(message.c_str());
  }
  Finish(Outcome::kViolation);
  Die("an execution was resumed after its violation");
}

// Thread 0: sets up, and when the threads have ended, checks and tears down.
void Explorer::RunSetup() {
  Scenario scenario(this);
  body_(scenario);
  Finish(Outcome::kReady);

  for (int i = 1; i < thread_count_; ++i) memory_.JoinThread(i);
  arena_active = false;
  for (const auto& check : at_end_) check();
  arena_active = true;
  for (std::size_t i = destructions_.size(); i-- > 0;) destructions_[i].destroy(destructions_[i].object);
  Finish(Outcome::kComplete);
}

// --- One execution ---

Explorer::Outcome Explorer::RunOnce() {
  arena.Reset();
  memory_.Reset();
  for (int i = 0; i < kMaxParkers; ++i) parkers_[i] = {};
  parker_count_ = 0;
  trace_.clear();
  names_.clear();
  destructions_.clear();
  cursor_ = 0;
  steps_ = 0;
  quiet_rounds_ = 0;
  weak_left_ = spurious_left_ = 0;
  preemptions_left_ = 0;
  thread_count_ = 1;
  outcome_ = Outcome::kNone;
  active_ = this;
  arena_active = true;

  const auto resume = [this](int thread) {
    current_ = thread;
    JumpTo(&controller_, coroutines_[thread].context);
  };
  const auto make = [this](int thread) {
    Coroutine& c = coroutines_[thread];
    c.context = make_fcontext(static_cast<char*>(c.stack) + kStackSize, kStackSize, &Explorer::Entry);
  };
  make(0);
  resume(0);
  if (outcome_ == Outcome::kReady) {
    outcome_ = Outcome::kNone;
    spurious_left_ = options_.spurious_failures < 0 ? 254 : options_.spurious_failures;
    weak_left_ = options_.weak_choices;
    preemptions_left_ = preemption_bound_;
    for (int i = 1; i < thread_count_; ++i) memory_.StartThread(i);
    for (int i = 1; i < thread_count_ && outcome_ == Outcome::kNone; ++i) {
      // Up to its first scheduling point: what comes before concerns nobody else.
      make(i);
      coroutines_[i].starting = true;
      resume(i);
      coroutines_[i].starting = false;
    }
    if (outcome_ == Outcome::kNone) {
      current_ = 0;
      const int first = PickThread();
      if (first > 0) resume(first);
    }
    weak_left_ = spurious_left_ = 0;
    if (outcome_ == Outcome::kReady) {  // All threads have ended.
      outcome_ = Outcome::kNone;
      resume(0);
    }
  }

  arena_active = false;
  for (int i = 1; i < thread_count_; ++i) coroutines_[i].body = nullptr;
  at_end_.clear();
  active_ = nullptr;
  ++executions_;
  return outcome_;
}

// The next leaf of the tree, depth first. False: there is none.
bool Explorer::NextPath() {
  choices_.resize(std::min(choices_.size(), cursor_));
  while (!choices_.empty()) {
    if (choices_.back().taken + 1 < choices_.back().count) {
      ++choices_.back().taken;
      return true;
    }
    choices_.pop_back();
  }
  return false;
}

int Explorer::Decide(int count) {
  if (count <= 1) return 0;
  if (cursor_ == choices_.size()) {
    OutsideArena outside;
    if (replaying_) Die("the schedule to replay does not fit the scenario: too short");
    choices_.push_back({static_cast<std::uint16_t>(count), 0});
  }
  Choice& choice = choices_[cursor_++];
  if (replaying_) choice.count = static_cast<std::uint16_t>(count);
  if (choice.count != count || choice.taken >= count)
    Die("the scenario is not deterministic (rule M1), or was replayed wrongly");
  return choice.taken;
}

int Explorer::ChooseOutcome(int count) {
  // While nothing moves, those that spin see the newest values in the end: stores become visible in finite time.
  if (weak_left_ == 0 || quiet_rounds_ > 1) return 0;
  const int choice = Decide(count);
  if (choice != 0 && weak_left_ > 0) --weak_left_;
  return choice;
}

bool Explorer::ChooseSpuriousFailure() {
  if (spurious_left_ == 0 || Decide(2) == 0) return false;
  --spurious_left_;
  return true;
}

int Explorer::Choose(int count) {
  const int choice = Decide(count);
  memory_.Happened(current_, Mix(count, choice));
  Record({.op = Op::kChoose, .a = static_cast<std::uint64_t>(choice)});
  return choice;
}

// --- Scheduling ---

// The running thread is about to do something that others may see, or cannot go on. Returns when it is to do it.
void Explorer::SchedulePoint(Status status) {
  if (current_ == 0) return;  // Setting up, or at the end: alone.
  Coroutine& self = coroutines_[current_];
  self.status = status;
  if (self.starting) {
    ToController();
    return;
  }
  if (++steps_ > options_.max_steps) Fail("livelock: more steps than Options::max_steps");
  const int next = PickThread();
  if (next <= 0) {
    ToController();
    Die("an execution was resumed after its end");
  }
  if (next == current_) return;
  const int me = current_;
  current_ = next;
  JumpTo(&coroutines_[me].context, coroutines_[next].context);
}

bool Explorer::CanRun(const Coroutine& thread) const {
  switch (thread.status) {
    case Status::kRunnable:
    case Status::kTimedPark:
    case Status::kTimedFutex:
      return true;
    case Status::kParked:
      return parkers_[thread.parker].token;
    case Status::kFutex:
      return thread.woken;
    case Status::kBlocked: {
      std::uint32_t value = 0;
      std::memcpy(&value, thread.waits_on, sizeof(value));
      return value != thread.blocked_while;
    }
    case Status::kSpinning:
    case Status::kEnded:
      return false;
  }
  return false;
}

// A thread that waits may be left alone without spending a preemption.
bool Explorer::MayInterrupt(int thread) const {
  const Status status = coroutines_[thread].status;
  if (status == Status::kTimedPark) return !parkers_[coroutines_[thread].parker].token || preemptions_left_ != 0;
  if (status == Status::kTimedFutex) return !coroutines_[thread].woken || preemptions_left_ != 0;
  return preemptions_left_ != 0;
}

// Those that may go next; the running one first, if it can go on.
int Explorer::CollectRunnable(int* threads) const {
  std::uint32_t able = 0;
  for (int i = 1; i < thread_count_; ++i) {
    if (CanRun(coroutines_[i])) able |= 1u << i;
  }
  int count = 0;
  const auto add = [&](int i) {
    if ((able >> i & 1) != 0 && (coroutines_[i].waits_for & able) == 0) threads[count++] = i;
  };
  if (current_ != 0) add(current_);
  if (count == 1 && !MayInterrupt(current_)) return count;
  for (int i = 1; i < thread_count_; ++i) {
    if (i != current_) add(i);
  }
  return count;
}

// The thread to go next. 0: the execution is over, outcome_ says how.
int Explorer::PickThread() {
  int threads[kMaxThreads];
  int count = CollectRunnable(threads);
  if (count == 0) {
    if (QuietEnd()) return 0;
    count = CollectRunnable(threads);
  }
  if (count > 1) {
    PruneIfVisited();
    if (outcome_ == Outcome::kPruned) return 0;
  }
  const int choice = Decide(count);
  const int next = threads[choice];
  HasTurn(next);
  const bool interrupts =
      threads[0] == current_ && next != current_ && coroutines_[current_].status == Status::kRunnable;
  if (interrupts && preemptions_left_ > 0) --preemptions_left_;
  return next;
}

void Explorer::HasTurn(int thread) {
  for (int i = 1; i < thread_count_; ++i) {
    Coroutine& c = coroutines_[i];
    if (c.ran_since_spin == kEverybody) continue;
    c.ran_since_spin |= 1u << thread;
    c.waits_for &= ~(1u << thread);
    bool all = true;
    for (int j = 1; j < thread_count_; ++j) all &= i == j || (c.ran_since_spin >> j & 1) != 0;
    if (all) c.ran_since_spin = kEverybody;
  }
}

// Nobody can go on. True: that is the end, outcome_ says which. False: those that spin may look once more.
bool Explorer::QuietEnd() {
  bool spinning = false;
  bool foreground = false;
  for (int i = 1; i < thread_count_; ++i) {
    const Coroutine& c = coroutines_[i];
    spinning |= c.status == Status::kSpinning;
    foreground |= c.status != Status::kEnded && !c.background;
  }
  if (spinning && ++quiet_rounds_ <= kMaxQuietRounds) {
    for (int i = 1; i < thread_count_; ++i) {
      if (coroutines_[i].status == Status::kSpinning) coroutines_[i].status = Status::kRunnable;
    }
    return false;
  }
  if (!foreground) {
    outcome_ = Outcome::kReady;
    return true;
  }
  OutsideArena outside;
  outcome_ = Outcome::kViolation;
  message_ = spinning ? "livelock: every thread spins or sleeps:" : "deadlock: every thread sleeps:";
  for (int i = 1; i < thread_count_; ++i) {
    if (coroutines_[i].status != Status::kEnded && !coroutines_[i].background) {
      message_ += std::string(" ") + coroutines_[i].name;
    }
  }
  return true;
}

void Explorer::PruneIfVisited() {
  if (visited_ == nullptr || cursor_ != choices_.size()) return;
  std::uint64_t key = memory_.Fingerprint();
  for (int i = 1; i < thread_count_; ++i) {
    const Coroutine& c = coroutines_[i];
    key += Mix(100 + i, Mix(static_cast<std::uint64_t>(c.status), c.woken));
    if (c.ran_since_spin != kEverybody) key += Mix(300 + i, Mix(c.ran_since_spin, c.waits_for));
  }
  for (int i = 0; i < parker_count_; ++i) key += Mix(200 + i, parkers_[i].token_hash);
  key = Mix(key, quiet_rounds_ * 256 + spurious_left_);
  // Which thread runs matters only to what a preemption is.
  if (preemption_bound_ >= 0) key = Mix(key, current_);
  OutsideArena outside;
  if (!visited_->Insert(key, {AsBudget(preemptions_left_), AsBudget(weak_left_)})) outcome_ = Outcome::kPruned;
}

// Something that others may see was changed: who spins may look again.
void Explorer::Changed() {
  quiet_rounds_ = 0;
  for (int i = 1; i < thread_count_; ++i) {
    if (i != current_ && coroutines_[i].status == Status::kSpinning) coroutines_[i].status = Status::kRunnable;
  }
}

void Explorer::SpinHint() {
  memory_.Happened(current_, /*what=*/11);
  Record({.op = Op::kSpin});
  Coroutine& self = coroutines_[current_];
  self.waits_for = 0;
  for (int i = 1; i < thread_count_; ++i) {
    const bool ran = (self.ran_since_spin >> i & 1) != 0;
    if (i != current_ && !ran && CanRun(coroutines_[i])) self.waits_for |= 1u << i;
  }
  self.ran_since_spin = 0;
  SchedulePoint(Status::kSpinning);
}

// --- Operations ---

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

void Explorer::Fence(std::memory_order order) {
  if (order == std::memory_order_seq_cst) SchedulePoint(Status::kRunnable);
  memory_.Fence(current_, order);
  Record({.op = Op::kFence, .order = order});
}

int Explorer::NewParker() {
  if (parker_count_ == kMaxParkers) Die("too many Parkers: raise kMaxParkers");
  return parker_count_++;
}

void Explorer::Park(int parker, bool may_time_out, bool* timed_out) {
  ParkerState& state = parkers_[parker];
  coroutines_[current_].parker = parker;
  Record({.op = Op::kPark, .a = static_cast<std::uint64_t>(parker)});
  SchedulePoint(may_time_out ? Status::kTimedPark : Status::kParked);
  coroutines_[current_].status = Status::kRunnable;
  if (!state.token) {
    memory_.Happened(current_, /*what=*/12);
    Record({.op = Op::kTimedOut, .a = static_cast<std::uint64_t>(parker)});
    *timed_out = true;
    return;
  }
  memory_.Happened(current_, state.token_hash);
  memory_.Acquire(current_, state.released);
  state = {};
  Record({.op = Op::kParked, .a = static_cast<std::uint64_t>(parker)});
  *timed_out = false;
}

bool Explorer::Unpark(int parker) {
  SchedulePoint(Status::kRunnable);
  ParkerState& state = parkers_[parker];
  memory_.Release(current_, &state.released);
  const bool first = !state.token;
  state.token = true;
  state.token_hash += Mix(current_, state.released.clock.at[current_]);
  memory_.Happened(current_, first);
  Record({.op = Op::kUnpark, .a = static_cast<std::uint64_t>(parker)});
  Changed();
  return first;
}

bool Explorer::FutexWait(const void* address, std::uint32_t expected, bool may_time_out) {
  SchedulePoint(Status::kRunnable);
  const AccessResult found = memory_.Newest(current_, address, sizeof(std::uint32_t));
  Record({.op = Op::kFutexWait, .address = address, .size = sizeof(std::uint32_t), .a = found.read, .b = expected});
  Check(found.error);
  if (found.read != expected) return true;
  Coroutine& self = coroutines_[current_];
  self.waits_on = address;
  self.woken = false;
  SchedulePoint(may_time_out ? Status::kTimedFutex : Status::kFutex);
  self.status = Status::kRunnable;
  self.waits_on = nullptr;
  const bool woken = self.woken;
  self.woken = false;
  memory_.Happened(current_, woken ? 13 : 14);
  Record({.op = woken ? Op::kFutexWoken : Op::kTimedOut, .address = address, .size = sizeof(std::uint32_t)});
  return woken;
}

void Explorer::BlockWhile(const void* address, std::uint32_t value) {
  Coroutine& self = coroutines_[current_];
  self.waits_on = address;
  self.blocked_while = value;
  self.status = Status::kBlocked;
  if (CanRun(self)) {
    self.status = Status::kRunnable;
  } else {
    Record({.op = Op::kBlocked, .address = address, .size = sizeof(std::uint32_t)});
    SchedulePoint(Status::kBlocked);
  }
  self.status = Status::kRunnable;
  self.waits_on = nullptr;
}

int Explorer::FutexWake(const void* address, int count) {
  SchedulePoint(Status::kRunnable);
  memory_.Happened(current_, /*what=*/15);
  Record({.op = Op::kFutexWake, .address = address, .size = sizeof(std::uint32_t)});
  // Those that wait, in the order of their numbers: the kernel's order is not promised.
  int woken = 0;
  for (int i = 1; i < thread_count_ && woken < count; ++i) {
    Coroutine& c = coroutines_[i];
    const bool waits = c.status == Status::kFutex || c.status == Status::kTimedFutex;
    if (!waits || c.waits_on != address || c.woken) continue;
    c.woken = true;
    memory_.Happened(current_, i);
    ++woken;
  }
  Changed();
  return woken;
}

void Explorer::AccessData(const void* address, bool write) {
  Record({.op = write ? Op::kDataWrite : Op::kDataRead, .address = address});
  Check(memory_.AccessData(current_, address, write));
}

// --- The search ---

bool Explorer::OutOfTime() const {
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - started_at_;
  return elapsed.count() > options_.max_seconds;
}

// All executions within the bounds. False: stopped early.
bool Explorer::Search(int preemptions, int weak_choices, Result* result) {
  VisitedSet visited;
  visited_ = &visited;
  preemption_bound_ = preemptions;
  const_cast<Options&>(options_).weak_choices = weak_choices;
  choices_.clear();
  bool complete = true;
  do {
    if (RunOnce() == Outcome::kViolation) {
      result->violation = true;
      result->message = message_;
      result->report = Report(message_);
      complete = false;
      break;
    }
    if (executions_ >= options_.max_executions || ((executions_ & 255) == 0 && OutOfTime())) {
      complete = false;
      break;
    }
  } while (NextPath());
  result->executions = executions_;
  result->states = visited.count();
  visited_ = nullptr;
  return complete;
}

Result Explorer::ExploreAll() {
  Result result;
  result.exhausted = Search(options_.preemptions, options_.weak_choices, &result);
  const int weak_choices = options_.weak_choices;
  if (result.violation) {
    // The one with the fewest interruptions is the easiest to read.
    const Result first = result;
    const int most = 3;
    for (int sum = 0; sum <= 2 * most; ++sum) {
      for (int weak = 0; weak <= std::min(sum, most); ++weak) {
        const int preemptions = sum - weak;
        if (preemptions > most || (options_.preemptions >= 0 && preemptions > options_.preemptions) ||
            (weak_choices >= 0 && weak > weak_choices)) {
          continue;
        }
        Result simpler;
        Search(preemptions, weak, &simpler);
        if (simpler.violation) {
          simpler.executions = first.executions;
          return simpler;
        }
        if (OutOfTime()) return first;
      }
    }
    return first;
  }
  result.passed = result.exhausted;
  if (!result.exhausted) {
    result.report = std::string("model: \"") + options_.name +
                    "\" was not explored to its end: " + Number(executions_) +
                    " executions (see Options::max_executions, max_seconds)";
  }
  return result;
}

Result Explorer::Replay(const char* schedule) {
  replaying_ = true;
  preemption_bound_ = kUnbounded;
  const_cast<Options&>(options_).weak_choices = kUnbounded;
  choices_.clear();
  int preemptions = 0;
  int weak_choices = 0;
  int length = 0;
  if (std::sscanf(schedule, "%d,%d:%n", &preemptions, &weak_choices, &length) < 2) Die("not a schedule");
  preemption_bound_ = preemptions;
  const_cast<Options&>(options_).weak_choices = weak_choices;
  for (const char* p = schedule + length; *p != '\0';) {
    char* end = nullptr;
    const auto taken = std::strtoul(p, &end, 10);
    if (end == p) Die("not a schedule");
    choices_.push_back({0, static_cast<std::uint16_t>(taken)});
    p = *end == '.' ? end + 1 : end;
  }
  Result result;
  result.violation = RunOnce() == Outcome::kViolation;
  result.passed = !result.violation;
  result.executions = 1;
  result.message = message_;
  result.report = Report(result.violation ? message_ : "none: this execution is fine");
  return result;
}

// --- Reports ---

void Explorer::Record(TraceEntry entry) {
  if (trace_.size() == kMaxTrace) return;  // Within the capacity: no allocation.
  entry.thread = static_cast<std::uint8_t>(current_);
  trace_.push_back(entry);
}

std::string Explorer::NameOf(const void* address, std::size_t size) const {
  const auto* at = static_cast<const char*>(address);
  const NamedRange* best = nullptr;
  for (const NamedRange& range : names_) {
    if (range.begin <= at && at < range.begin + range.size && (best == nullptr || range.size <= best->size)) {
      best = &range;
    }
  }
  if (best == nullptr) {
    for (const Coroutine& c : coroutines_) {
      const auto* stack = static_cast<const char*>(c.stack);
      if (stack <= at && at < stack + kStackSize) {
        return std::string(c.name) + "'s stack-" + Number(static_cast<std::uint64_t>(stack + kStackSize - at));
      }
    }
    char text[32];
    std::snprintf(text, sizeof(text), "%p", address);
    return text;
  }
  const auto offset = static_cast<std::uint64_t>(at - best->begin);
  return offset == 0 && best->size <= size ? best->name : std::string(best->name) + "+" + Number(offset);
}

void Explorer::FormatEntry(const TraceEntry& entry, std::string* text) const {
  const std::string name = entry.address != nullptr ? NameOf(entry.address, entry.size) : std::string();
  const std::string order = OrderName(entry.order);
  const char* op = kOpNames[static_cast<int>(entry.op)];
  switch (entry.op) {
    case Op::kLoad:
      *text += name + ".load(" + order + ") = " + Number(entry.a);
      break;
    case Op::kStore:
      *text += name + ".store(" + Number(entry.b) + ", " + order + ")";
      break;
    case Op::kExchange:
    case Op::kAdd:
    case Op::kSub:
    case Op::kAnd:
    case Op::kOr:
    case Op::kXor:
      *text += name + "." + op + "(" + order + "): " + Number(entry.a) + " -> " + Number(entry.b);
      break;
    case Op::kCompareExchange:
      *text += name + ".compare_exchange(" + order + "): ";
      *text += entry.done ? Number(entry.a) + " -> " + Number(entry.b) : "failed, found " + Number(entry.a);
      break;
    case Op::kFence:
      *text += "fence(" + order + ")";
      break;
    case Op::kPark:
    case Op::kParked:
    case Op::kUnpark:
      *text += std::string(op) + " (parker " + Number(entry.a) + ")";
      break;
    case Op::kFutexWait:
      *text += std::string(op) + " on " + name + " = " + Number(entry.a) + ", expected " + Number(entry.b);
      break;
    case Op::kChoose:
      *text += std::string(op) + " " + Number(entry.a);
      break;
    case Op::kNote:
      *text += std::string("-- ") + entry.text;
      break;
    default:
      *text += std::string(op) + (name.empty() ? "" : " " + name);
      break;
  }
  if (entry.weak) {
    *text += entry.op == Op::kLoad || !entry.done ? "   <- an old value; the newest is "
                                                  : "   <- behind an old value; the newest is ";
    *text += Number(entry.newest);
  }
}

std::string Explorer::Schedule() const {
  std::string text = std::to_string(preemption_bound_) + "," + std::to_string(options_.weak_choices) + ":";
  for (std::size_t i = 0; i < std::min(cursor_, choices_.size()); ++i) {
    text += (i == 0 ? "" : ".") + std::to_string(choices_[i].taken);
  }
  return text;
}

std::string Explorer::Report(const std::string& message) const {
  std::string text = std::string("model: violation in \"") + options_.name + "\": " + message + "\n";
  text += "  after " + Number(executions_) + " executions\n";
  int number = 0;
  for (const TraceEntry& entry : trace_) {
    if (entry.thread == 0 && entry.op != Op::kNote) continue;  // Setting up.
    char head[64];
    std::snprintf(head, sizeof(head), "  %3d  %-12s ", ++number,
                  entry.thread == 0 ? "" : coroutines_[entry.thread].name);
    text += head;
    FormatEntry(entry, &text);
    text += "\n";
  }
  text += "  replay: WEFT_MODEL_REPLAY='" + std::string(options_.name) + ":" + Schedule() + "'\n";
  return text;
}

// --- The interface ---

void Scenario::Add(const char* name, std::function<void()> body, bool background) {
  if (explorer_->thread_count_ == kMaxThreads) Die("too many threads: raise kMaxThreads");
  Explorer::Coroutine& c = explorer_->coroutines_[explorer_->thread_count_++];
  c.name = name;
  c.body = std::move(body);
  c.background = background;
  c.status = Explorer::Status::kRunnable;
  c.woken = false;
  c.waits_on = nullptr;
  c.ran_since_spin = Explorer::kEverybody;
  c.waits_for = 0;
}

void* Scenario::Allocate(std::size_t size, std::size_t alignment) { return arena.Allocate(size, alignment); }

void Scenario::NameAllocated(const void* from, const char* name) {
  Name(from, static_cast<const char*>(arena.end()) - static_cast<const char*>(from), name);
}

void Scenario::AtDestruction(void (*destroy)(void*), void* object) {
  OutsideArena outside;
  explorer_->destructions_.push_back({destroy, object});
}

void Scenario::AtEnd(std::function<void()> check) {
  OutsideArena outside;
  explorer_->at_end_.push_back(std::move(check));
}

void Scenario::Name(const void* address, std::size_t size, const char* name) {
  OutsideArena outside;
  explorer_->names_.push_back({static_cast<const char*>(address), size, name});
}

Result Explore(const Options& options, const std::function<void(Scenario&)>& body) {
  if (Explorer::active() != nullptr) Die("Explore() within a scenario");
  Options bounds = options;
  bounds.preemptions = FromEnvironment("WEFT_MODEL_PREEMPTIONS", bounds.preemptions);
  bounds.weak_choices = FromEnvironment("WEFT_MODEL_WEAK", bounds.weak_choices);
  bounds.spurious_failures = FromEnvironment("WEFT_MODEL_SPURIOUS", bounds.spurious_failures);
  bounds.max_seconds = FromEnvironment("WEFT_MODEL_SECONDS", static_cast<int>(bounds.max_seconds));
  const auto start = std::chrono::steady_clock::now();
  Explorer explorer(bounds, body);
  if (const char* replay = std::getenv("WEFT_MODEL_REPLAY"); replay != nullptr) {
    const std::size_t length = std::strlen(options.name);
    if (std::strncmp(replay, options.name, length) == 0 && replay[length] == ':') {
      const Result result = explorer.Replay(replay + length + 1);
      std::fprintf(stderr, "%s", result.report.c_str());
      return result;
    }
  }
  Result result = explorer.ExploreAll();
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  std::printf("model: %-50s %9" PRIu64 " executions %9" PRIu64 " points %6.2f s  %s\n", options.name, result.executions,
              result.states, elapsed.count(),
              result.violation ? "violation" : (result.exhausted ? "exhausted" : "not exhausted"));
  return result;
}

void Fail(const std::string& message) {
  if (Explorer::active() == nullptr) Die(message.c_str());
  Explorer::active()->Fail(message);
}

int Choose(int count) { return Explorer::active()->Choose(count); }

void SpinHint() {
  if (Explorer::active() != nullptr) Explorer::active()->SpinHint();
}

void Note(const char* text) { Explorer::active()->Note(text); }

bool Exploring() { return Explorer::active() != nullptr; }

bool FutexWait(const void* address, std::uint32_t expected, bool may_time_out) {
  return Explorer::active()->FutexWait(address, expected, may_time_out);
}

int FutexWake(const void* address, int count) { return Explorer::active()->FutexWake(address, count); }

void BlockWhile(const void* address, std::uint32_t value) {
  if (Explorer::active()->current() != 0) Explorer::active()->BlockWhile(address, value);
}

int CurrentThread() { return Explorer::active()->current(); }

Parker::Parker() : index_(Explorer::active()->NewParker()) {}

void Parker::Park() {
  bool timed_out = false;
  Explorer::active()->Park(index_, /*may_time_out=*/false, &timed_out);
}

bool Parker::ParkOrTimeOut() {
  bool timed_out = false;
  Explorer::active()->Park(index_, /*may_time_out=*/true, &timed_out);
  return !timed_out;
}

bool Parker::Unpark() { return Explorer::active()->Unpark(index_); }

namespace internal {
namespace {

std::uint64_t FromStorage(const void* storage, std::size_t size) {
  std::uint64_t value = 0;
  std::memcpy(&value, storage, size);
  return value;
}

std::uint64_t Apply(RmwKind kind, std::uint64_t value, std::uint64_t operand) {
  switch (kind) {
    case RmwKind::kExchange:
      return operand;
    case RmwKind::kAdd:
      return value + operand;
    case RmwKind::kSub:
      return value - operand;
    case RmwKind::kAnd:
      return value & operand;
    case RmwKind::kOr:
      return value | operand;
    case RmwKind::kXor:
      return value ^ operand;
  }
  return value;
}

Op OpOf(RmwKind kind) {
  switch (kind) {
    case RmwKind::kExchange:
      return Op::kExchange;
    case RmwKind::kAdd:
      return Op::kAdd;
    case RmwKind::kSub:
      return Op::kSub;
    case RmwKind::kAnd:
      return Op::kAnd;
    case RmwKind::kOr:
      return Op::kOr;
    case RmwKind::kXor:
      return Op::kXor;
  }
  return Op::kExchange;
}

std::uint64_t Truncate(std::uint64_t value, std::size_t size) {
  return size == sizeof(value) ? value : value & ((std::uint64_t{1} << (size * 8)) - 1);
}

}  // namespace

// With no scenario running, all of these act on the storage alone.

void AtomicConstructed(void* storage, std::size_t size) {
  Explorer* e = Explorer::active();
  if (e != nullptr) e->Check(e->memory().Construct(e->current(), storage, size));
}

void AtomicDestroyed(void* storage) {
  Explorer* e = Explorer::active();
  if (e != nullptr) e->Check(e->memory().Destroy(e->current(), storage));
}

std::uint64_t AtomicLoad(const void* storage, std::size_t size, std::memory_order order) {
  Explorer* e = Explorer::active();
  if (e == nullptr) return FromStorage(storage, size);
  return e
      ->Perform(Op::kLoad, order, storage, size, [&] { return e->memory().Load(e->current(), storage, size, order); })
      .read;
}

void AtomicStore(void* storage, std::size_t size, std::uint64_t value, std::memory_order order) {
  Explorer* e = Explorer::active();
  if (e == nullptr) {
    std::memcpy(storage, &value, size);
    return;
  }
  e->Perform(Op::kStore, order, storage, size,
             [&] { return e->memory().Store(e->current(), storage, size, value, order); });
}

std::uint64_t AtomicRmw(void* storage, std::size_t size, RmwKind kind, std::uint64_t operand, std::memory_order order) {
  const auto update = [&](std::uint64_t value) { return Truncate(Apply(kind, value, operand), size); };
  Explorer* e = Explorer::active();
  if (e == nullptr) {
    const std::uint64_t value = FromStorage(storage, size);
    const std::uint64_t updated = update(value);
    std::memcpy(storage, &updated, size);
    return value;
  }
  return e
      ->Perform(OpOf(kind), order, storage, size,
                [&] { return e->memory().ReadModifyWrite(e->current(), storage, size, order, update); })
      .read;
}

bool AtomicCompareExchange(void* storage, std::size_t size, std::uint64_t* expected, std::uint64_t desired,
                           std::memory_order success, std::memory_order failure, bool weak) {
  Explorer* e = Explorer::active();
  if (e == nullptr) {
    const std::uint64_t value = FromStorage(storage, size);
    const bool equal = value == *expected;
    if (equal) std::memcpy(storage, &desired, size);
    *expected = value;
    return equal;
  }
  const CompareExchange operation{*expected, desired, success, failure, weak};
  const AccessResult result = e->Perform(Op::kCompareExchange, success, storage, size,
                                         [&] { return e->memory().Exchange(e->current(), storage, size, operation); });
  *expected = result.read;
  return result.wrote;
}

void Fence(std::memory_order order) {
  if (Explorer::active() != nullptr) Explorer::active()->Fence(order);
}

void DataConstructed(const void* address, std::size_t) {
  Explorer* e = Explorer::active();
  if (e != nullptr) e->Check(e->memory().ConstructData(e->current(), address));
}

void DataRead(const void* address) {
  if (Explorer::active() != nullptr) Explorer::active()->AccessData(address, /*write=*/false);
}

void DataWritten(const void* address) {
  if (Explorer::active() != nullptr) Explorer::active()->AccessData(address, /*write=*/true);
}

void DataDestroyed(const void* address) {
  Explorer* e = Explorer::active();
  if (e != nullptr) e->Check(e->memory().DestroyData(e->current(), address));
}

}  // namespace internal

namespace {

void* AllocateAnywhere(std::size_t size, std::size_t alignment) {
  if (arena_active) return arena.Allocate(size, alignment);
  void* memory = nullptr;
  if (posix_memalign(&memory, std::max(alignment, sizeof(void*)), size == 0 ? 1 : size) != 0) Die("out of memory");
  return memory;
}

void FreeAnywhere(void* memory) {
  if (memory == nullptr) return;
  if (!arena.Contains(memory)) {
    std::free(memory);
    return;
  }
  Explorer* e = Explorer::active();
  if (e != nullptr && arena_active) e->Check(e->memory().Freed(e->current(), memory, Arena::SizeOf(memory)));
}

}  // namespace

}  // namespace weft::model

// The whole program's, so that what the code under test allocates is the scenario's too.
void* operator new(std::size_t size) { return weft::model::AllocateAnywhere(size, __STDCPP_DEFAULT_NEW_ALIGNMENT__); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return weft::model::AllocateAnywhere(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size) { return operator new(size); }
void* operator new[](std::size_t size, std::align_val_t alignment) { return operator new(size, alignment); }
void operator delete(void* memory) noexcept { weft::model::FreeAnywhere(memory); }
void operator delete(void* memory, std::size_t) noexcept { weft::model::FreeAnywhere(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { weft::model::FreeAnywhere(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { weft::model::FreeAnywhere(memory); }
void operator delete[](void* memory) noexcept { weft::model::FreeAnywhere(memory); }
void operator delete[](void* memory, std::size_t) noexcept { weft::model::FreeAnywhere(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { weft::model::FreeAnywhere(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { weft::model::FreeAnywhere(memory); }
