// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
#include "weft/tests/testing/interleave.h"

#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "weft/tests/testing/interleave_arena.h"
#include "weft/tests/testing/interleave_explorer.h"
#include "weft/tests/testing/model_atomic.h"

namespace weft::model {
namespace {

// Its value, or `otherwise` if it is not set.
int FromEnvironment(const char* variable, int otherwise) {
  const char* text = std::getenv(variable);
  return text != nullptr && *text != '\0' ? std::atoi(text) : otherwise;
}

// The schedule to replay, if it is one of the scenario of this name.
const char* ScheduleToReplay(const char* name) {
  const char* replay = std::getenv("WEFT_MODEL_REPLAY");
  const std::size_t length = std::strlen(name);
  const bool ours = replay != nullptr && std::strncmp(replay, name, length) == 0 && replay[length] == ':';
  return ours ? replay + length + 1 : nullptr;
}

}  // namespace

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
  c.timed_out_in_vain = false;
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
  explorer_->trace_.Name(address, size, name);
}

Result Explore(const Options& options, const std::function<void(Scenario&)>& body) {
  if (Explorer::active() != nullptr) Die("Explore() within a scenario");
  Options bounds = options;
  bounds.preemptions = FromEnvironment("WEFT_MODEL_PREEMPTIONS", bounds.preemptions);
  bounds.weak_choices = FromEnvironment("WEFT_MODEL_WEAK", bounds.weak_choices);
  bounds.spurious_failures = FromEnvironment("WEFT_MODEL_SPURIOUS", bounds.spurious_failures);
  const int campaign_seconds = FromEnvironment("WEFT_MODEL_SECONDS", 0);
  if (campaign_seconds > 0) {
    bounds.max_seconds = campaign_seconds;
    bounds.max_executions = UINT64_MAX;
  }
  const int seed = FromEnvironment("WEFT_MODEL_RANDOM", -1);

  const auto start = std::chrono::steady_clock::now();
  Explorer explorer(bounds, body);
  if (const char* schedule = ScheduleToReplay(options.name); schedule != nullptr) {
    const Result result = explorer.Replay(schedule);
    std::fprintf(stderr, "%s", result.report.c_str());
    return result;
  }
  Result result = seed >= 0 ? explorer.ExploreAtRandom(static_cast<std::uint32_t>(seed)) : explorer.ExploreAll();
  if (campaign_seconds > 0 && !result.violation) result.passed = true;
  if (bounds.quiet) return result;
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  const char* how = result.violation   ? "violation"
                    : seed >= 0        ? "at random"
                    : result.exhausted ? "exhausted"
                                       : "not exhausted";
  std::printf("model: %-50s %9" PRIu64 " executions %9" PRIu64 " points %6.2f s  %s\n", options.name, result.executions,
              result.states, elapsed.count(), how);
  std::fflush(stdout);
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

void HeavyFence() {
  if (Explorer::active() != nullptr) Explorer::active()->HeavyFence();
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

}  // namespace weft::model
