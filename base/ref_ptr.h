// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// RefPtr<T>: a shared pointer to an object that counts its references itself (T derives from RefCounted<T>): one word,
// one allocation, and a raw pointer can be turned back into an owner. Get(), Reset() and UseCount() are tRPC-Cpp's.
// Sample:
//     struct JoinState : RefCounted<JoinState> { ... };
//     RefPtr<JoinState> state = MakeRefCounted<JoinState>();
//
// Invariants
//   RP1  A new object has one reference, which MakeRefCounted() or RefPtr::Adopt() takes over.
//   RP2  What any owner did before it gave up its reference is visible to the destructor.
// AddRef(), Release(): any thread that holds a reference.  One RefPtr object is not thread-safe.
#ifndef WEFT_BASE_REF_PTR_H_
#define WEFT_BASE_REF_PTR_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "weft/base/report/check.h"
#include "weft/base/thread/atomic.h"

namespace weft::base {

// Base of T, as `struct T : RefCounted<T>`: holds the count. T is deleted with the last reference, by whichever thread
// gives it up.
template <class T>
class RefCounted {
 public:
  RefCounted(const RefCounted&) = delete;
  RefCounted& operator=(const RefCounted&) = delete;

  // One reference more. The caller holds one already.
  void AddRef() const noexcept {
    // relaxed: the caller holds a reference, so the object is visible to it; the count carries nothing else.
    const std::uint32_t before = count_.fetch_add(1, std::memory_order_relaxed);
    WEFT_DCHECK(before != 0, "a reference to a destroyed object");
  }

  // One reference less: the caller's. Deletes the object with the last one, in this call.
  void Release() const noexcept {
    // acq_rel: release publishes what this owner did, acquire (for the last one) sees what all others did (RP2).
    const std::uint32_t before = count_.fetch_sub(1, std::memory_order_acq_rel);
    WEFT_DCHECK(before != 0, "more releases than references");
    if (before == 1) delete static_cast<const T*>(this);
  }

  // Whether the caller holds the only reference. acquire: it then sees what the former owners did (RP2).
  bool HasOneRef() const noexcept { return count_.load(std::memory_order_acquire) == 1; }

  // How many references there are: a snapshot, unless the caller holds the only one.  acquire: as in HasOneRef().
  std::uint32_t UseCount() const noexcept { return count_.load(std::memory_order_acquire); }

 protected:
  RefCounted() = default;
  ~RefCounted() = default;

 private:
  mutable Atomic<std::uint32_t> count_{1};
};

template <class T>
class RefPtr {
 public:
  // Null.
  constexpr RefPtr() = default;
  constexpr RefPtr(std::nullptr_t) {}  // NOLINT(google-explicit-constructor): as std::shared_ptr.

  // A further reference to `object`, of which the caller holds one.
  explicit RefPtr(T* object) noexcept : object_(object) {
    if (object_ != nullptr) object_->AddRef();
  }
  // Takes over a reference that the caller has.
  static RefPtr Adopt(T* object) noexcept {
    RefPtr result;
    result.object_ = object;
    return result;
  }

  RefPtr(const RefPtr& other) noexcept : RefPtr(other.object_) {}
  RefPtr(RefPtr&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  // Shares or takes over the other's object, and gives up its own.
  RefPtr& operator=(RefPtr other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~RefPtr() {
    if (object_ != nullptr) object_->Release();
  }

  // The object, which this still owns; nullptr: there is none.
  T* Get() const noexcept { return object_; }
  T& operator*() const noexcept { return *object_; }
  T* operator->() const noexcept { return object_; }
  // Whether there is an object.
  explicit operator bool() const noexcept { return object_ != nullptr; }
  // Gives up the reference, and is null.
  void Reset() noexcept { *this = RefPtr(); }

  // 0 without an object.
  std::uint32_t UseCount() const noexcept { return object_ != nullptr ? object_->UseCount() : 0; }

  // The caller takes over the reference, and must Adopt() or Release() it.
  [[nodiscard]] T* Leak() noexcept { return std::exchange(object_, nullptr); }

  friend bool operator==(const RefPtr& a, const RefPtr& b) noexcept { return a.object_ == b.object_; }
  friend bool operator==(const RefPtr& a, std::nullptr_t) noexcept { return a.object_ == nullptr; }

 private:
  T* object_ = nullptr;
};

// A new T(args...), with one reference.
template <class T, class... Args>
RefPtr<T> MakeRefCounted(Args&&... args) {
  return RefPtr<T>::Adopt(new T(std::forward<Args>(args)...));
}

}  // namespace weft::base

namespace weft {  // What programs write.
using base::MakeRefCounted;
using base::RefCounted;
using base::RefPtr;
}  // namespace weft

#endif  // WEFT_BASE_REF_PTR_H_
