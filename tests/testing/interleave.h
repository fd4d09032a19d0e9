// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// The interleaving explorer: runs a small concurrent scenario under every schedule and every outcome that the C++
// memory model allows its atomics, within bounds. It reports the first execution that breaks a check, with the steps
// that led there.
//
//   const model::Result result = model::Explore({.name = "message passing"}, [](model::Scenario& scenario) {
//     struct Shared { base::Atomic<int> flag{0}; model::Data<int> data{0}; };
//     auto* shared = scenario.New<Shared>("shared");
//     scenario.Thread("writer", [=] { shared->data.Write(1); shared->flag.store(1, std::memory_order_release); });
//     scenario.Thread("reader", [=] { if (shared->flag.load(std::memory_order_acquire) == 1) shared->data.Read(); });
//   });
//   EXPECT_TRUE(result.passed) << result.report;
//
// How it works. A model thread is a coroutine; all of them run in the calling thread, one at a time. Each operation on
// a base::Atomic (model_atomic.h), each full fence and each blocking operation is a scheduling point, where any
// runnable thread may go next; a HeavyFence is one for each thread that it makes fence. The explorer walks the tree of
// these choices depth first, by running the scenario again from the start for each leaf. The value that an atomic load
// returns is a choice as well: see interleave_memory.h for the memory model (C++20 without load buffering: weaker than
// x86-TSO and than what AArch64 does to all but relaxed loads before stores).
//
// What keeps the tree small
//   - A point that was reached before in another order is not explored twice. Two executions are at the same point if
//     each thread has performed the same operations and read from the same stores, and every location has the same
//     modification order: the code can have seen no difference then.
//   - `preemptions` bounds how often a thread is interrupted that could have gone on (blocking and spinning are free),
//     `weak_choices` how often an operation differs from a sequentially consistent machine (a load that returns an old
//     value, a store that enters the modification order before the newest). Most faults need one or two of each; a pass
//     without bounds is a proof for the scenario.
//
// Rules for a scenario
//   M1  The body is deterministic: it depends only on its own atomics, Choose(), and what those returned.
//   M2  Whatever two model threads share is a base::Atomic, a Data<T> (which is checked for races), a Parker, or a
//       tally whose updates commute and which only a check of "never both" or AtEnd() reads.
//   M3  Everything is made anew in the body, by scenario.New<T>() or plain `new`, and nothing is kept: at the end of an
//       execution its memory is taken back as a whole, and threads may be abandoned in the middle. AtEnd() runs outside
//       of that memory: what it collects (a set of outcomes) lives on.
//   M4  A loop that waits for another thread calls SpinHint() (base::CpuRelax does).
//
// Not modelled: load buffering (a load that returns what a later store of its own thread caused), consume, spurious
// failures of compare_exchange_weak unless Options::spurious_failures allows some.
#ifndef WEFT_TESTS_TESTING_INTERLEAVE_H_
#define WEFT_TESTS_TESTING_INTERLEAVE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <new>
#include <string>
#include <type_traits>
#include <utility>

namespace weft::model {

inline constexpr int kUnbounded = -1;

struct Options {
  const char* name = "unnamed";
  int preemptions = 3;        // kUnbounded: all schedules
  int weak_choices = 2;       // kUnbounded: all outcomes; 0: sequential consistency
  int spurious_failures = 0;  // of compare_exchange_weak, in one execution
  int max_steps = 2000;       // operations in one execution: more is a livelock
  std::uint64_t max_executions = 20'000'000;
  double max_seconds = 300;
  bool prune = true;   // leave out what was reached before in another order
  bool quiet = false;  // print no line about how it went
};

struct Result {
  bool passed = false;     // no violation, and all within the bounds was explored
  bool violation = false;  // some execution broke a check
  bool exhausted = false;  // all executions within the bounds were explored
  std::uint64_t executions = 0;
  std::uint64_t states = 0;
  std::string message;  // what the violation is
  std::string report;   // the violation with its trace, or why the exploration stopped early
};

class Explorer;

// The body of a scenario gets one, and sets it up.
class Scenario {
 public:
  // An object that lives until the end of the execution, after AtEnd(). Its destructor runs only if the execution is
  // complete. Traces use `name`.
  template <class T, class... Args>
  T* New(const char* name, Args&&... args) {
    void* memory = Allocate(sizeof(T), alignof(T));
    Name(memory, sizeof(T), name);
    T* object = ::new (memory) T(std::forward<Args>(args)...);
    NameAllocated(memory, name);
    if constexpr (!std::is_trivially_destructible_v<T>) {
      AtDestruction([](void* p) { static_cast<T*>(p)->~T(); }, object);
    }
    return object;
  }

  // A thread that must come to its end, or the execution is a deadlock.
  void Thread(const char* name, std::function<void()> body) { Add(name, std::move(body), /*background=*/false); }

  // A thread that may be blocked or spinning when all others have ended. The execution is over when nothing moves.
  void Background(const char* name, std::function<void()> body) { Add(name, std::move(body), /*background=*/true); }

  // After the threads have ended; sees all they did. Checks, and collects outcomes.
  void AtEnd(std::function<void()> check);

  // Traces use `name` for the bytes from `address`.
  void Name(const void* address, std::size_t size, const char* name);

 private:
  friend class Explorer;
  explicit Scenario(Explorer* explorer) : explorer_(explorer) {}
  void Add(const char* name, std::function<void()> body, bool background);
  void* Allocate(std::size_t size, std::size_t alignment);
  void NameAllocated(const void* from, const char* name);  // what has been allocated since: its parts
  void AtDestruction(void (*destroy)(void*), void* object);

  Explorer* explorer_;
};

// Explores `body`. The environment changes what is explored:
//   WEFT_MODEL_PREEMPTIONS, WEFT_MODEL_WEAK, WEFT_MODEL_SPURIOUS   the bounds (-1: none)
//   WEFT_MODEL_SECONDS   a campaign: as far as it comes in this time; what was not exhausted passes too
//   WEFT_MODEL_RANDOM    a seed: executions at random, without bounds, until the time is over
//   WEFT_MODEL_REPLAY    <name>:<schedule>: the one execution that a report ended with
Result Explore(const Options& options, const std::function<void(Scenario&)>& body);

// --- To be called from model threads ---

// The execution is a violation.
[[noreturn]] void Fail(const std::string& message);

// A choice of the scenario itself, 0 .. count - 1 (does the timer fire before? after?).
int Choose(int count);

// The thread waits for another one: it resumes after another has changed something.
void SpinHint();

// A line in the trace. `text` must live for ever.
void Note(const char* text);

// True while a scenario runs.
bool Exploring();

// The number of the running thread: 1 is the first; 0 sets up and checks the end.
int CurrentThread();

// Blocks while the newest value of `address`, a location of 4 bytes, is `value`: a held lock, as an operating system's
// scheduler sees it, without the turns of a spin loop. Orders nothing.
void BlockWhile(const void* address, std::uint32_t value);

// Blocks while `address`, a location of `size` bytes, holds `expected`: the system call. True unless it returned
// because of a time-out, which may happen at any time if `may_time_out`.
bool FutexWait(const void* address, std::uint32_t expected, bool may_time_out);
int FutexWake(const void* address, int count);  // how many it woke

// How a thread sleeps in a protocol: Unpark() leaves a token, Park() takes it.
class Parker {
 public:
  Parker();
  Parker(const Parker&) = delete;
  Parker& operator=(const Parker&) = delete;

  void Park();           // Waits for the token and takes it. Acquires what the unparkers released.
  bool ParkOrTimeOut();  // As Park(); false: timed out, at any time before the token comes.
  bool Unpark();         // Leaves the token. Releases. False: there was one already.

 private:
  int index_;
};

namespace internal {
void DataConstructed(const void* address, std::size_t size);
void DataRead(const void* address);
void DataWritten(const void* address);
void DataDestroyed(const void* address);
}  // namespace internal

// Plain data, checked. A data race: two accesses, at least one of them a write, neither of which happens before the
// other; or any access not between the construction and the destruction.
template <class T>
class Data {
 public:
  Data() : value_() { internal::DataConstructed(this, sizeof(*this)); }
  Data(T value) : value_(std::move(value)) { internal::DataConstructed(this, sizeof(*this)); }  // NOLINT: as a T is.
  Data(const Data& other) : value_(other.Read()) { internal::DataConstructed(this, sizeof(*this)); }
  ~Data() { internal::DataDestroyed(this); }

  Data& operator=(const Data& other) {
    Write(other.Read());
    return *this;
  }
  Data& operator=(T value) {
    Write(std::move(value));
    return *this;
  }

  T Read() const {
    internal::DataRead(this);
    return value_;
  }
  void Write(T value) {
    internal::DataWritten(this);
    value_ = std::move(value);
  }
  operator T() const { return Read(); }  // NOLINT: stands for a T.
  T operator->() const { return Read(); }

 private:
  T value_;
};

}  // namespace weft::model

// A check of the scenario or of a header under test.
#define MODEL_CHECK(condition, message)                                            \
  do {                                                                             \
    if (!(condition)) ::weft::model::Fail(std::string(#condition ": ") + message); \
  } while (false)

#endif  // WEFT_TESTS_TESTING_INTERLEAVE_H_
