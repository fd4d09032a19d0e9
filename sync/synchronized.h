// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Synchronized<T, Mutex>: a value and the mutex that guards it, so that the value cannot be reached without the mutex.
// Sample:
//   Synchronized<std::vector<int>> jobs;
//   jobs.Lock()->push_back(1);                                                 // locked to the end of the statement
//   const std::size_t count = jobs.With([](const auto& all) { return all.size(); });
//   if (auto some = jobs.LockWhen([](const auto& all) { return !all.empty(); }, 5ms)) {
//     Use(some->back());                                                       // there is one, and it is locked
//     some->pop_back();
//   }
//
// T is anything. Mutex is FiberMutex, FiberTimedMutex, FiberSharedMutex or any other with the standard's interface; the
// calls that it has no counterpart for do not compile. Waiting for a condition needs FiberMutex.
//
// Who may call: as of the mutex; with Weft's, any fiber and any thread. Lock(), SharedLock(), LockWhen(), With() and
// the timed forms may switch (a thread: block). The Try forms without a deadline, and Unlock(), never do.
// A pointer belongs to the fiber or thread that made it, and goes before the Synchronized. Give it a name if it is to
// outlive the statement: `for (auto& job : *jobs.Lock())` unlocks before the first job.
// Memory ordering and lifetime: the mutex's. The last owner may destroy it as soon as its pointer has unlocked.
// Errors: none of its own. If a function or predicate of the caller's throws, or a wait does, the mutex is unlocked.
//
// How it waits. A pointer to a T that is not const may have changed the value, so its unlock wakes those that wait for
// a condition; they check it again, one after the other. Nobody has to notify. It costs a load where nobody waits. A
// pointer to a const T, from a const Synchronized or SharedLock(), wakes nobody.
//
// Invariants
//   SY1  The value is used by the owner of the mutex only, or by its readers.
//   SY2  Whoever may have changed the value notifies after that and before it unlocks: no waiter sleeps over a change.
//   SY3  The last touch is the mutex's unlock.
// Rejected: a condition variable that users notify, as a plain mutex needs (one forgotten call is a waiter that sleeps
// for ever); a pointer that remembers whether it was dereferenced as const (it would cost each access a write).
#ifndef WEFT_SYNC_SYNCHRONIZED_H_
#define WEFT_SYNC_SYNCHRONIZED_H_

#include <concepts>
#include <mutex>
#include <shared_mutex>
#include <type_traits>
#include <utility>

#include "weft/base/deadline.h"
#include "weft/base/report/check.h"
#include "weft/base/thread/thread_annotations.h"
#include "weft/sync/fiber_condition_variable.h"
#include "weft/sync/fiber_mutex.h"

namespace weft {

template <class T, class Mutex = FiberMutex>
class Synchronized {
  static constexpr bool kHasConditions = std::same_as<Mutex, FiberMutex>;

 public:
  // Holds the mutex while it is not null. Moves only.
  template <class Value, class Lock>
  class [[nodiscard]] BasicPointer {
    static constexpr bool kMayChange = kHasConditions && !std::is_const_v<Value>;

   public:
    // Null.
    BasicPointer() = default;
    BasicPointer(BasicPointer&& other) noexcept = default;
    // Unlocks what it holds, and takes over what the other one holds.
    BasicPointer& operator=(BasicPointer&& other) noexcept {
      if (this == &other) return *this;
      Unlock();
      owner_ = other.owner_;
      lock_ = std::move(other.lock_);
      return *this;
    }
    ~BasicPointer() { Unlock(); }

    // Whether it holds the mutex.
    explicit operator bool() const noexcept { return lock_.owns_lock(); }
    Value& operator*() const noexcept WEFT_NO_THREAD_SAFETY_ANALYSIS {
      WEFT_DCHECK(lock_.owns_lock(), "Synchronized: a pointer that holds no lock is dereferenced");
      return owner_->value_;
    }
    Value* operator->() const noexcept { return &**this; }

    // Before its end. It is null then.
    void Unlock() noexcept {
      if (!lock_.owns_lock()) return;
      if constexpr (kMayChange) owner_->changed_.notify_all();  // SY2
      lock_.unlock();
    }

    // Unlocks, waits until holds(value) is true, and is locked again, in any case: also if it throws. Returns what
    // `holds` says in the end: false, the deadline has passed. `holds` is called with the mutex locked.
    template <class Predicate>
    requires kHasConditions && std::predicate<Predicate&, const T&>
    void Wait(Predicate holds) {
      BeginWait();
      owner_->changed_.wait(lock_,
                            [&]() WEFT_NO_THREAD_SAFETY_ANALYSIS { return holds(std::as_const(owner_->value_)); });
    }
    template <class Predicate>
    requires kHasConditions && std::predicate<Predicate&, const T&>
    [[nodiscard]] bool Wait(Predicate holds, Deadline deadline) {
      BeginWait();
      return Await(holds, deadline);
    }

    // To wait on a condition variable of one's own.
    Lock& lock() noexcept { return lock_; }

   private:
    friend class Synchronized;
    using Owner = std::conditional_t<std::is_const_v<Value>, const Synchronized, Synchronized>;

    BasicPointer(Owner* owner, Lock lock) : owner_(owner), lock_(std::move(lock)) {}

    void BeginWait() {
      WEFT_CHECK(lock_.owns_lock(), "Synchronized: a pointer that holds no lock waits");
      if constexpr (kMayChange) owner_->changed_.notify_all();  // SY2
    }
    template <class Predicate>
    bool Await(Predicate& holds, Deadline deadline) {
      return owner_->changed_.wait(
          lock_, [&]() WEFT_NO_THREAD_SAFETY_ANALYSIS { return holds(std::as_const(owner_->value_)); }, deadline);
    }

    Owner* owner_ = nullptr;
    Lock lock_;
  };

  // What Lock() and its kin return: they hold the mutex alone; the value can be changed through the first only.
  using Pointer = BasicPointer<T, std::unique_lock<Mutex>>;
  using ConstPointer = BasicPointer<const T, std::unique_lock<Mutex>>;
  // What SharedLock() returns: it holds the mutex beside other readers.
  using SharedPointer = BasicPointer<const T, std::shared_lock<Mutex>>;

  // A value-initialised T.
  Synchronized() requires std::default_initializable<T> : value_() {}
  // A T of these arguments.
  template <class... Args>
  requires(sizeof...(Args) != 0 && std::constructible_from<T, Args...>) explicit Synchronized(Args&&... args)
      : value_(std::forward<Args>(args)...) {}
  Synchronized(const Synchronized&) = delete;
  Synchronized& operator=(const Synchronized&) = delete;

  // --- Alone ---

  // Waits for the mutex. May switch (a thread: block). A const value is locked for reading it, alone.
  Pointer Lock() { return Pointer(this, std::unique_lock<Mutex>(mutex_)); }
  ConstPointer Lock() const { return ConstPointer(this, std::unique_lock<Mutex>(mutex_)); }

  // Null: another one has it, or, with a deadline, had it until then.
  Pointer TryLock() { return Pointer(this, std::unique_lock<Mutex>(mutex_, std::try_to_lock)); }
  ConstPointer TryLock() const { return ConstPointer(this, std::unique_lock<Mutex>(mutex_, std::try_to_lock)); }
  Pointer TryLock(Deadline deadline) requires requires(Mutex& mutex) { mutex.try_lock_until(Deadline()); }
  {
    return mutex_.try_lock_until(deadline) ? Pointer(this, std::unique_lock<Mutex>(mutex_, std::adopt_lock))
                                           : Pointer();
  }

  // f(value), with the mutex locked. Returns a copy of what f returns, so that no reference into the value gets out.
  template <class F>
  auto With(F&& f) {
    const Pointer value = Lock();
    return std::forward<F>(f)(*value);
  }
  template <class F>
  auto With(F&& f) const {
    const ConstPointer value = Lock();
    return std::forward<F>(f)(*value);
  }

  // Locks when holds(value) is true. Null: it was not before the deadline. `holds` is called with the mutex locked.
  template <class Predicate>
  requires kHasConditions && std::predicate<Predicate&, const T&> Pointer LockWhen(Predicate holds,
                                                                                   Deadline deadline = {}) {
    Pointer value = Lock();
    if (value.Await(holds, deadline)) return value;
    value.lock_.unlock();  // Nothing has changed.
    return Pointer();
  }

  // --- Beside other readers, where the mutex has lock_shared() ---

  // Waits for the mutex as a reader. May switch (a thread: block).
  SharedPointer SharedLock() const requires requires(Mutex& mutex) { mutex.lock_shared(); }
  { return SharedPointer(this, std::shared_lock<Mutex>(mutex_)); }
  // Null: a writer has it or waits for it. Never waits.
  SharedPointer TrySharedLock() const requires requires(Mutex& mutex) { mutex.lock_shared(); }
  { return SharedPointer(this, std::shared_lock<Mutex>(mutex_, std::try_to_lock)); }
  // f(value), with the mutex locked beside other readers. Returns a copy of what f returns.
  template <class F>
  auto WithShared(F&& f) const requires requires(Mutex& mutex) {
    mutex.lock_shared();
  }
  {
    const SharedPointer value = SharedLock();
    return std::forward<F>(f)(*value);
  }

 private:
  struct NoConditions {};

  mutable Mutex mutex_;
  [[no_unique_address]] mutable std::conditional_t<kHasConditions, FiberConditionVariable, NoConditions> changed_;
  T value_ WEFT_GUARDED_BY(mutex_);
};

}  // namespace weft

#endif  // WEFT_SYNC_SYNCHRONIZED_H_
