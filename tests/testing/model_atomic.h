// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// base::Atomic, base::Plain and the fences as the interleaving explorer sees them. base/thread/atomic.h includes this
// file instead of defining its own under WEFT_MODEL_CHECK.
//
// An Atomic<T> has the size and the interface of std::atomic<T>; the explorer keeps the location's history and finds it
// by address. Outside of an exploration it is a plain variable.
#ifndef WEFT_TESTS_TESTING_MODEL_ATOMIC_H_
#define WEFT_TESTS_TESTING_MODEL_ATOMIC_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "weft/tests/testing/interleave.h"

#define WEFT_MODEL_CPU_RELAX() ::weft::model::SpinHint()

namespace weft::model::internal {

enum class RmwKind : std::uint8_t { kExchange, kAdd, kSub, kAnd, kOr, kXor };

// `storage` is the Atomic's own memory; it always holds the newest value.
void AtomicConstructed(void* storage, std::size_t size);
void AtomicDestroyed(void* storage);
std::uint64_t AtomicLoad(const void* storage, std::size_t size, std::memory_order order);
void AtomicStore(void* storage, std::size_t size, std::uint64_t value, std::memory_order order);
std::uint64_t AtomicRmw(void* storage, std::size_t size, RmwKind kind, std::uint64_t operand, std::memory_order order);
bool AtomicCompareExchange(void* storage, std::size_t size, std::uint64_t* expected, std::uint64_t desired,
                           std::memory_order success, std::memory_order failure, bool weak);
void Fence(std::memory_order order);
void HeavyFence();

constexpr std::memory_order FailureOrder(std::memory_order order) {
  if (order == std::memory_order_acq_rel) return std::memory_order_acquire;
  if (order == std::memory_order_release) return std::memory_order_relaxed;
  return order;
}

}  // namespace weft::model::internal

namespace weft::base {

inline void ThreadFence(std::memory_order order) noexcept { model::internal::Fence(order); }

inline void FenceAfterReadModifyWrite() noexcept { ThreadFence(std::memory_order_seq_cst); }

// base/thread/atomic.h. No compiler changes the order of a model's accesses.
inline void LightFence() noexcept {}
inline bool HasHeavyFence() noexcept { return true; }
inline void HeavyFence() noexcept { model::internal::HeavyFence(); }

// Data that the headers under test keep beside their atomics, or in an atomic that only one owner at a time may touch:
// the patches of the model tests make it Plain, that is, checked for races.
template <class T>
class Plain : public model::Data<T> {
 public:
  using model::Data<T>::Data;
  using model::Data<T>::operator=;
  T load(std::memory_order) const { return this->Read(); }
  void store(T value, std::memory_order) { this->Write(value); }
};

template <class T>
class Atomic {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(std::uint64_t));
  using Order = std::memory_order;
  static constexpr Order kSeqCst = std::memory_order_seq_cst;

 public:
  using value_type = T;
  static constexpr bool is_always_lock_free = true;

  constexpr Atomic() noexcept : Atomic(T()) {}
  constexpr Atomic(T value) noexcept : value_(value) {  // NOLINT: as std::atomic.
    if (!std::is_constant_evaluated()) model::internal::AtomicConstructed(&value_, sizeof(T));
  }
  constexpr ~Atomic() {
    if (!std::is_constant_evaluated()) model::internal::AtomicDestroyed(&value_);
  }
  Atomic(const Atomic&) = delete;
  Atomic& operator=(const Atomic&) = delete;

  T load(Order order = kSeqCst) const noexcept {
    return FromBits(model::internal::AtomicLoad(&value_, sizeof(T), order));
  }
  void store(T value, Order order = kSeqCst) noexcept {
    model::internal::AtomicStore(&value_, sizeof(T), ToBits(value), order);
  }
  T exchange(T value, Order order = kSeqCst) noexcept {
    return Rmw(model::internal::RmwKind::kExchange, ToBits(value), order);
  }
  bool compare_exchange_strong(T& expected, T desired, Order success, Order failure) noexcept {
    return CompareExchange(expected, desired, success, failure, /*weak=*/false);
  }
  bool compare_exchange_strong(T& expected, T desired, Order order = kSeqCst) noexcept {
    return CompareExchange(expected, desired, order, model::internal::FailureOrder(order), /*weak=*/false);
  }
  bool compare_exchange_weak(T& expected, T desired, Order success, Order failure) noexcept {
    return CompareExchange(expected, desired, success, failure, /*weak=*/true);
  }
  bool compare_exchange_weak(T& expected, T desired, Order order = kSeqCst) noexcept {
    return CompareExchange(expected, desired, order, model::internal::FailureOrder(order), /*weak=*/true);
  }

  T fetch_add(auto operand, Order order = kSeqCst) noexcept {
    return Rmw(model::internal::RmwKind::kAdd, Scaled(operand), order);
  }
  T fetch_sub(auto operand, Order order = kSeqCst) noexcept {
    return Rmw(model::internal::RmwKind::kSub, Scaled(operand), order);
  }
  T fetch_and(T operand, Order order = kSeqCst) noexcept {
    return Rmw(model::internal::RmwKind::kAnd, ToBits(operand), order);
  }
  T fetch_or(T operand, Order order = kSeqCst) noexcept {
    return Rmw(model::internal::RmwKind::kOr, ToBits(operand), order);
  }
  T fetch_xor(T operand, Order order = kSeqCst) noexcept {
    return Rmw(model::internal::RmwKind::kXor, ToBits(operand), order);
  }

  operator T() const noexcept { return load(); }  // NOLINT: as std::atomic.
  T operator=(T value) noexcept {                 // NOLINT: as std::atomic.
    store(value);
    return value;
  }
  T operator++() noexcept { return fetch_add(1) + 1; }
  T operator++(int) noexcept { return fetch_add(1); }
  T operator--() noexcept { return fetch_sub(1) - 1; }
  T operator--(int) noexcept { return fetch_sub(1); }

  bool is_lock_free() const noexcept { return true; }

 private:
  static std::uint64_t ToBits(T value) noexcept {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof(T));
    return bits;
  }
  static T FromBits(std::uint64_t bits) noexcept {
    T value;
    std::memcpy(&value, &bits, sizeof(T));
    return value;
  }
  static std::uint64_t Scaled(auto operand) noexcept {
    if constexpr (std::is_pointer_v<T>) {
      return static_cast<std::uint64_t>(operand) * sizeof(std::remove_pointer_t<T>);
    } else {
      return ToBits(static_cast<T>(operand));
    }
  }
  T Rmw(model::internal::RmwKind kind, std::uint64_t operand, Order order) noexcept {
    return FromBits(model::internal::AtomicRmw(&value_, sizeof(T), kind, operand, order));
  }
  bool CompareExchange(T& expected, T desired, Order success, Order failure, bool weak) noexcept {
    std::uint64_t bits = ToBits(expected);
    const bool done =
        model::internal::AtomicCompareExchange(&value_, sizeof(T), &bits, ToBits(desired), success, failure, weak);
    if (!done) expected = FromBits(bits);
    return done;
  }

  T value_;
};

// Sleeps last as long as the model likes: a deadline passes at any time.
inline bool FutexWait(Atomic<std::uint32_t>* word, std::uint32_t expected,
                      const std::chrono::steady_clock::time_point* deadline = nullptr) noexcept {
  return model::FutexWait(word, expected, /*may_time_out=*/deadline != nullptr);
}

inline int FutexWake(Atomic<std::uint32_t>* word, int n) noexcept { return model::FutexWake(word, n); }

}  // namespace weft::base

#endif  // WEFT_TESTS_TESTING_MODEL_ATOMIC_H_
