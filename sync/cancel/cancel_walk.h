// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// CancelWalk: one walk through all fibers below a scope, for cancel_node.cc, which says what holds meanwhile (CN4 to
// CN7). A template, since it is a part of that file, and Node is CancelNode: what it asks of the tree is defined there.
#ifndef WEFT_SYNC_CANCEL_CANCEL_WALK_H_
#define WEFT_SYNC_CANCEL_CANCEL_WALK_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "weft/base/thread/thread_annotations.h"
#include "weft/scheduling_group/fiber/fiber_entity.h"
#include "weft/scheduling_group/fiber/park.h"
#include "weft/sync/wait/wait_queue.h"

namespace weft::synchronization {

template <class Node>
class CancelWalk {
 public:
  // The walks of a cancellation alternate, with a fence between them (CN6).
  enum class Kind : std::uint8_t {
    kMark,  // sets kPending where it is to be, and touches no wait
    kEnd,   // ends the waits of the fibers that have it, and sets none
    kTime,  // of a deadline: sets kTimed where it is to be
  };

  CancelWalk(Node* root, Kind how) noexcept : root_(root), how_(how) {}
  ~CancelWalk() { Flush(); }
  CancelWalk(const CancelWalk&) = delete;
  CancelWalk& operator=(const CancelWalk&) = delete;

  void Run() noexcept WEFT_NO_THREAD_SAFETY_ANALYSIS {
    FiberEntity* fiber = root_->owner.load(std::memory_order_acquire);  // Pairs with the release in EnterScope().
    Node* node = root_;
    if (fiber != nullptr) {
      fiber->cancel_word.lock();
      if (!HasInChain(fiber, root_)) {  // Left meanwhile.
        fiber->cancel_word.unlock();
        return;
      }
      Reach(fiber);
      node = fiber->innermost_if_scoped;
    }
    for (bool arrived = true;;) {
      // `node` is in the chain of `fiber`, whose lock we hold; `arrived`: from below in the chain, not from a child.
      FiberEntity* const child = NextChild(fiber, node, arrived);
      if (child != nullptr) {
        fiber = child;
        Reach(fiber);
        node = fiber->innermost_if_scoped;
        arrived = IsOwnedBy(node, fiber);
        if (arrived) continue;
      } else if (node == root_) {
        break;
      } else {
        node = node->parent;
        arrived = IsOwnedBy(node, fiber);
        if (arrived) continue;
      }
      // Back to the scope whose child this was.
      fiber->cancel_word.unlock();
      fiber = node->owner.load(std::memory_order_relaxed);
    }
    if (fiber != nullptr) fiber->cancel_word.unlock();
  }

 private:
  static constexpr std::size_t kBatch = 32;

  // Whether a cancellation that has come to the fiber (by its parent scope, or by root_) comes to this scope of its.
  bool IsReached(const FiberEntity* fiber, const Node* node) const noexcept {
    for (; node != root_ && IsOwnedBy(node, fiber); node = node->parent) {
      if (node->shielded) return false;
    }
    return true;
  }

  // The next child of the scope, locked; nullptr: it has none, or no more.
  FiberEntity* NextChild(const FiberEntity* fiber, Node* node, bool arrived) noexcept WEFT_NO_THREAD_SAFETY_ANALYSIS {
    if (node->children == nullptr) return nullptr;
    if (arrived) {
      if (!IsReached(fiber, node)) return nullptr;
      node->children->lock.lock();
      node->children->Rewind();
    }
    while (FiberEntity* const child = node->children->Next()) {
      child->cancel_word.lock();
      if (HasInChain(child, node)) return child;
      child->cancel_word.unlock();  // CN4
    }
    node->children->lock.unlock();
    return nullptr;
  }

  // The wait of a fiber that is in a scope.
  void Reach(FiberEntity* fiber) noexcept WEFT_REQUIRES(fiber->cancel_word) {
    Node* const innermost = fiber->innermost_if_scoped;
    const std::uint8_t bits = BitsOf(fiber, innermost);
    if (how_ == Kind::kTime) {
      fiber->cancel_word.Add(bits & scheduling_group::CancelWord::kTimed);
      return;
    }
    if ((bits & scheduling_group::CancelWord::kPending) == 0) return;
    if (how_ == Kind::kMark) {
      fiber->cancel_word.Add(scheduling_group::CancelWord::kPending);
      return;
    }
    // It belongs to another cancellation that has not walked yet, or its spawner is about to set it and to start it.
    if (!fiber->cancel_word.pending()) return;
    const TakenWait taken = TakenWait::Of(fiber);
    if (!taken) return;
    if (taken.published()) {
      taken.Wake();
      return;
    }
    woken_[count_++] = fiber;
    if (count_ == kBatch) Flush();
  }

  void Flush() noexcept {
    if (count_ != 0) scheduling_group::UnparkRemote(woken_.data(), std::exchange(count_, 0));
  }

  Node* const root_;
  const Kind how_;
  std::size_t count_ = 0;
  std::array<FiberEntity*, kBatch> woken_;
};

}  // namespace weft::synchronization

#endif  // WEFT_SYNC_CANCEL_CANCEL_WALK_H_
