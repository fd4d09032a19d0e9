// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
#include "weft/tests/testing/interleave_explorer.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "weft/tests/testing/interleave_arena.h"

namespace weft::model {
namespace {

constexpr std::size_t kStackSize = std::size_t{256} << 10;
constexpr std::chrono::seconds kSimplifyFor{10};
constexpr int kMaxQuietRounds = 3;  // of all threads spinning while nothing changes

std::uint8_t AsBudget(int bound) { return bound < 0 || bound > 254 ? 255 : static_cast<std::uint8_t>(bound); }

}  // namespace

Explorer* Explorer::active_ = nullptr;

Explorer::Explorer(const Options& options, const std::function<void(Scenario&)>& body)
    : options_(options),
      body_(body),
      memory_(this),
      deadline_(std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::nanoseconds>(
                                                       std::chrono::duration<double>(options.max_seconds))) {
  for (Coroutine& coroutine : coroutines_) coroutine.stack = NewStack();
  arena.free_hook = [](const void* block, std::size_t size) {
    Explorer* e = active();
    e->Check(e->memory_.Freed(e->current_, block, size));
  };
}

Explorer::~Explorer() {
  for (Coroutine& coroutine : coroutines_) munmap(coroutine.stack, kStackSize);
}

// --- Coroutines ---

void* Explorer::NewStack() {
  void* stack = mmap(nullptr, kStackSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (stack == MAP_FAILED) Die("no memory for a stack");
  return stack;
}

void Explorer::JumpTo(Context* save, Context context) {
  leaving_ = save;
  const Transfer from = boost::context::detail::jump_fcontext(context, this);
  *leaving_ = from.fctx;  // The flow that jumped to us.
}

void Explorer::ToController() { JumpTo(&coroutines_[current_].context, controller_); }

void Explorer::Entry(Transfer from) {
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

// Thread 0: sets up; after the threads have ended, checks and tears down.
void Explorer::RunSetup() {
  Scenario scenario(this);
  body_(scenario);
  Finish(Outcome::kReady);

  for (int i = 1; i < thread_count_; ++i) memory_.JoinThread(i);
  arena.active = false;
  for (const auto& check : at_end_) check();
  arena.active = true;
  for (std::size_t i = destructions_.size(); i-- > 0;) destructions_[i].destroy(destructions_[i].object);
  Finish(Outcome::kComplete);
}

// --- One execution ---

Explorer::Outcome Explorer::RunOnce() {
  arena.Reset();
  memory_.Reset();
  for (int i = 0; i < kMaxParkers; ++i) parkers_[i] = {};
  parker_count_ = 0;
  trace_.Clear();
  destructions_.clear();
  cursor_ = 0;
  steps_ = 0;
  quiet_rounds_ = 0;
  weak_left_ = spurious_left_ = 0;
  preemptions_left_ = 0;
  thread_count_ = 1;
  outcome_ = Outcome::kNone;
  active_ = this;
  arena.active = true;

  const auto resume = [this](int thread) {
    current_ = thread;
    JumpTo(&controller_, coroutines_[thread].context);
  };
  const auto make = [this](int thread) {
    Coroutine& c = coroutines_[thread];
    c.context =
        boost::context::detail::make_fcontext(static_cast<char*>(c.stack) + kStackSize, kStackSize, &Explorer::Entry);
  };
  make(0);
  resume(0);
  if (outcome_ == Outcome::kReady) {
    outcome_ = Outcome::kNone;
    spurious_left_ = options_.spurious_failures < 0 ? 254 : options_.spurious_failures;
    weak_left_ = weak_bound_;
    preemptions_left_ = preemption_bound_;
    for (int i = 1; i < thread_count_; ++i) memory_.StartThread(i);
    for (int i = 1; i < thread_count_ && outcome_ == Outcome::kNone; ++i) {
      // Up to its first scheduling point: nobody else sees what comes before.
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

  arena.active = false;
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
    const bool deviates = at_random_ && random_() % deviate_one_in_ == 0;
    choices_.push_back({static_cast<std::uint16_t>(count),
                        deviates ? static_cast<std::uint16_t>(random_() % count) : std::uint16_t{0}});
  }
  Choice& choice = choices_[cursor_++];
  if (replaying_) choice.count = static_cast<std::uint16_t>(count);
  if (choice.count != count || choice.taken >= count)
    Die("the scenario is not deterministic (rule M1), or was replayed wrongly");
  return choice.taken;
}

int Explorer::ChooseOutcome(int count) {
  // While nothing moves, spinners see the newest values in the end: stores become visible in finite time.
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

// The running thread is about to do something visible to others, or cannot go on. Returns when it may do it.
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

// The thread's condition holds.
bool Explorer::Woken(const Coroutine& thread) const {
  if (thread.status == Status::kParked || thread.status == Status::kTimedPark) return parkers_[thread.parker].token;
  return thread.woken;
}

bool Explorer::CanRun(const Coroutine& thread) const {
  switch (thread.status) {
    case Status::kRunnable:
      return true;
    case Status::kTimedPark:
    case Status::kTimedFutex:
      return Woken(thread) || !thread.timed_out_in_vain;
    case Status::kParked:
    case Status::kFutex:
      return Woken(thread);
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

// Interrupting a waiting thread costs no preemption.
bool Explorer::MayInterrupt(int thread) const {
  const Coroutine& c = coroutines_[thread];
  const bool waits = c.status == Status::kTimedPark || c.status == Status::kTimedFutex;
  return (waits && !Woken(c)) || preemptions_left_ != 0;
}

// Those that may go next; the running one first, if it can go on.
int Explorer::CollectRunnable(int* threads) const {
  std::uint32_t able = 0;
  for (int i = 1; i < thread_count_; ++i) {
    if (CanRun(coroutines_[i])) able |= 1u << i;
  }
  int count = 0;
  const auto add = [&](int i) {
    const bool has_turn = (coroutines_[i].waits_for & able) == 0 || Woken(coroutines_[i]);
    if ((able >> i & 1) != 0 && has_turn) threads[count++] = i;
  };
  if (current_ != 0) add(current_);
  if (count == 1 && !MayInterrupt(current_)) return count;
  for (int i = 1; i < thread_count_; ++i) {
    if (i != current_) add(i);
  }
  return count;
}

// Returns the next thread. 0: the execution is over, for the reason in outcome_.
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

// The running thread is about to spin, or to wait with a time-out: all other runnable threads must have a turn before
// it does so again.
void Explorer::GivesTurn() {
  Coroutine& self = coroutines_[current_];
  self.waits_for = 0;
  for (int i = 1; i < thread_count_; ++i) {
    const bool ran = (self.ran_since_spin >> i & 1) != 0;
    if (i != current_ && !ran && CanRun(coroutines_[i])) self.waits_for |= 1u << i;
  }
  self.ran_since_spin = 0;
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

// Nobody can go on. True: that is the end, for the reason in outcome_. False: spinners may retry once.
bool Explorer::QuietEnd() {
  bool spinning = false;
  bool foreground = false;
  for (int i = 1; i < thread_count_; ++i) {
    const Coroutine& c = coroutines_[i];
    spinning |= c.status == Status::kSpinning;
    spinning |= (c.status == Status::kTimedPark || c.status == Status::kTimedFutex) && c.timed_out_in_vain;
    foreground |= c.status != Status::kEnded && !c.background;
  }
  if (spinning && ++quiet_rounds_ <= kMaxQuietRounds) {
    for (int i = 1; i < thread_count_; ++i) {
      if (coroutines_[i].status == Status::kSpinning) coroutines_[i].status = Status::kRunnable;
      coroutines_[i].timed_out_in_vain = false;
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
  if (!options_.prune || visited_ == nullptr || cursor_ != choices_.size()) return;
  std::uint64_t key = memory_.Fingerprint();
  for (int i = 1; i < thread_count_; ++i) {
    const Coroutine& c = coroutines_[i];
    key += Mix(100 + i, Mix(static_cast<std::uint64_t>(c.status), c.woken * 2 + c.timed_out_in_vain));
    if (c.ran_since_spin != kEverybody) key += Mix(300 + i, Mix(c.ran_since_spin, c.waits_for));
  }
  for (int i = 0; i < parker_count_; ++i) key += Mix(200 + i, parkers_[i].token_hash);
  key = Mix(key, quiet_rounds_ * 256 + spurious_left_);
  // The running thread matters only to what a preemption is.
  if (preemption_bound_ >= 0) key = Mix(key, current_);
  OutsideArena outside;
  if (!visited_->Insert(key, {AsBudget(preemptions_left_), AsBudget(weak_left_)})) outcome_ = Outcome::kPruned;
}

// Something visible to others has changed: spinners may retry.
void Explorer::Changed() {
  quiet_rounds_ = 0;
  for (int i = 1; i < thread_count_; ++i) {
    if (i == current_) continue;
    if (coroutines_[i].status == Status::kSpinning) coroutines_[i].status = Status::kRunnable;
    coroutines_[i].timed_out_in_vain = false;
  }
}

void Explorer::SpinHint() {
  memory_.Happened(current_, /*what=*/11);
  Record({.op = Op::kSpin});
  GivesTurn();
  SchedulePoint(Status::kSpinning);
}

// --- Operations ---

void Explorer::Fence(std::memory_order order) {
  if (order == std::memory_order_seq_cst) SchedulePoint(Status::kRunnable);
  memory_.Fence(current_, order);
  Record({.op = Op::kFence, .order = order});
}

// A full fence of the caller; of each other thread, in any order and at any moment; and of the caller.
void Explorer::HeavyFence() {
  Fence(std::memory_order_seq_cst);
  std::array<int, kMaxThreads> others;
  int left = 0;
  for (int other = 1; other < thread_count_; ++other) {
    if (other != current_) others[left++] = other;
  }
  for (; left > 0; --left) {
    SchedulePoint(Status::kRunnable);
    const int choice = left > 1 ? Decide(left) : 0;
    const int other = std::exchange(others[choice], others[left - 1]);
    memory_.Fence(other, std::memory_order_seq_cst);
    // Distinct from a fence of its own.
    memory_.Happened(other, Mix(/*what=*/13, current_));
    memory_.Happened(current_, Mix(/*what=*/14, other));
    Record({.op = Op::kForcedFence, .a = static_cast<std::uint64_t>(other)});
  }
  Fence(std::memory_order_seq_cst);
}

int Explorer::NewParker() {
  if (parker_count_ == kMaxParkers) Die("too many Parkers: raise kMaxParkers");
  return parker_count_++;
}

void Explorer::Park(int parker, bool may_time_out, bool* timed_out) {
  ParkerState& state = parkers_[parker];
  coroutines_[current_].parker = parker;
  Record({.op = Op::kPark, .a = static_cast<std::uint64_t>(parker)});
  if (may_time_out) GivesTurn();
  SchedulePoint(may_time_out ? Status::kTimedPark : Status::kParked);
  coroutines_[current_].status = Status::kRunnable;
  coroutines_[current_].timed_out_in_vain = !state.token;
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
  if (may_time_out) GivesTurn();
  SchedulePoint(may_time_out ? Status::kTimedFutex : Status::kFutex);
  self.status = Status::kRunnable;
  self.timed_out_in_vain = !self.woken;
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
  // In the order of their numbers: the kernel promises no order.
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

bool Explorer::OutOfTime() const { return std::chrono::steady_clock::now() > deadline_; }

// All executions within the bounds. False: stopped early.
bool Explorer::Search(int preemptions, int weak_choices, Result* result) {
  VisitedSet visited;
  visited_ = &visited;
  preemption_bound_ = preemptions;
  weak_bound_ = weak_choices;
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
  if (result.violation) return SimplestViolation(result);
  result.passed = result.exhausted;
  if (!result.exhausted) {
    result.report = "model: \"" + std::string(options_.name) + "\" was not explored to its end: ";
    result.report += std::to_string(executions_) + " executions (see Options::max_executions, max_seconds)";
  }
  return result;
}

Result Explorer::ExploreAtRandom(std::uint32_t seed) {
  Result result;
  random_.seed(seed);
  at_random_ = true;
  preemption_bound_ = weak_bound_ = kUnbounded;
  do {
    choices_.clear();
    deviate_one_in_ = 2u << random_() % 5;
    if (RunOnce() == Outcome::kViolation) {
      result.violation = true;
      result.message = message_;
      result.report = Report(message_);
      break;
    }
  } while ((executions_ & 255) != 0 || !OutOfTime());
  at_random_ = false;
  result.executions = executions_;
  result.passed = !result.violation;
  return result;
}

// The violation with the fewest interruptions and weak outcomes is the easiest to read.
Result Explorer::SimplestViolation(const Result& first) {
  constexpr int kMost = 2;
  deadline_ = std::chrono::steady_clock::now() + kSimplifyFor;
  const auto within = [](int value, int bound) { return bound < 0 || value <= bound; };
  for (int sum = 0; sum <= 2 * kMost; ++sum) {
    for (int weak = std::max(0, sum - kMost); weak <= std::min(sum, kMost); ++weak) {
      if (!within(sum - weak, options_.preemptions) || !within(weak, options_.weak_choices)) continue;
      Result simpler;
      Search(sum - weak, weak, &simpler);
      if (OutOfTime()) return first;
      if (!simpler.violation) continue;
      simpler.executions = first.executions;
      simpler.states = first.states;
      return simpler;
    }
  }
  return first;
}

Result Explorer::Replay(const char* schedule) {
  replaying_ = true;
  choices_.clear();
  int length = 0;
  if (std::sscanf(schedule, "%d,%d:%n", &preemption_bound_, &weak_bound_, &length) < 2) Die("not a schedule");
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
  result.report = Report(result.violation ? message_ : "none, this execution is fine");
  return result;
}

// --- Reports ---

void Explorer::Record(TraceEntry entry) {
  entry.thread = static_cast<std::uint8_t>(current_);
  trace_.Record(entry);
}

std::string Explorer::Schedule() const {
  std::string text = std::to_string(preemption_bound_);
  text += ",";
  text += std::to_string(weak_bound_);
  text += ":";
  for (std::size_t i = 0; i < std::min(cursor_, choices_.size()); ++i) {
    if (i != 0) text += ".";
    text += std::to_string(choices_[i].taken);
  }
  return text;
}

std::string Explorer::Report(const std::string& message) {
  std::vector<std::string> threads{""};
  for (int i = 0; i < thread_count_; ++i) {
    const Coroutine& c = coroutines_[i];
    if (i != 0) threads.emplace_back(c.name);
    trace_.Name(c.stack, kStackSize, threads.back() + "'s stack");
  }
  std::string text = "model: violation in \"";
  text += options_.name;
  text += "\": ";
  text += message;
  text += "\n  after ";
  text += std::to_string(executions_);
  text += " executions\n";
  text += trace_.Text(threads);
  text += "  replay: WEFT_MODEL_REPLAY='";
  text += options_.name;
  text += ":";
  text += Schedule();
  text += "'\n";
  return text;
}

}  // namespace weft::model
