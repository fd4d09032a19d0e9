// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// How a wait ends, and who decides it: wait_queue.h without fibers, threads and timers, so that
// tests/model/wait_queue_model.cc can drive this code through all interleavings with a parker of its own.
//
// A WaitNode is one wait: it stands on the waiter's stack, in the list of the primitive it waits for. Up to three may
// want to end it: a notifier, its time-out, a cancellation. They settle it by one read-modify-write on the decision
// word, which holds the node's address as long as the wait is undecided:
//
//                Begin                 Claim(kNotified)      notifier, holding the lock of the list
//      no wait --------> undecided --- timer::TimeOut        time-out of a fiber, by the timer thread
//         ^              word = node   Claim(kTimedOut)      time-out of a thread: itself
//         |                  |         ClaimFound(word, ...) canceller: knows only where the word is
//         |                  |
//         |                  | the winner writes the result
//         |                  v
//         +--- Leave --- decided ---> the winner's wake, once, is its last touch of the node
//                        word = null
//
//      who                    may touch the node
//      owner                  always; but it returns from its wait only as WS5 says
//      notifier               while it holds the list's lock and the node is in the list; after winning, until its wake
//      time-out               never: it has copied what it needs, and the owner disarms it before it returns
//      canceller              only after winning, until its wake. Before, it touches nothing but the word
//
// Invariants
//   WS1  Of all claims on one wait exactly one succeeds.
//   WS2  The winner, and nobody else, wakes the owner, exactly once.
//   WS3  A node enters its list under the list's lock, by its owner, and leaves it under that lock: taken by a notifier
//        (claimed or not), or by its owner, which was not notified.
//   WS4  A notification is not swallowed: a notifier whose claim fails takes the next node. Hence: if ClaimFirst()
//        returns null, no wait in the list was undecided.
//   WS5  The owner goes on when it has been woken, its timer is disarmed, and its node is out of the list: it was
//        notified, or has passed through the list's lock. So no one holds a pointer to the node.
//   WS6  A wait that only a notifier can end has no decision word: being in the list, under the lock, is the decision.
//   WS7  A notifier that has won may, instead of waking the owner, put the node into another list (a condition variable
//        hands its waiters on to the mutex). Whoever takes it out there has won; former contenders go on failing.
//   WS8  The nodes of a selection share a word, which holds the selection's address. Only Claim() and the selection
//        claim it: it is never a current_wait, and no time-out knows it.
//
// The decision word of an interruptible wait is FiberEntity::current_wait: its memory outlives the node, so that a
// canceller may look at it at any time, and a node address that comes back (the fiber waits again, in the same frame)
// is again the fiber's present wait. Other waits that need a word have it in the Waiter.
//
// Rejected: a state word in the node for the canceller too (the node would have to stay, hence a hazard pointer or a
// count: two more read-modify-writes per wait); deciding by the list's lock alone (a time-out would take it, but the
// primitive may be gone: one notified waiter returns and destroys it while another's timer is not yet disarmed).
#ifndef WEFT_SYNC_WAIT_WAIT_STATE_H_
#define WEFT_SYNC_WAIT_WAIT_STATE_H_

#include <cstdint>

#include "weft/base/report/check.h"
#include "weft/base/thread/atomic.h"

namespace weft::synchronization {

enum class WaitResult : std::uint8_t { kNotified, kTimedOut, kInterrupted };

class WaitNode {
 public:
  using DecisionWord = base::Atomic<void*>;

  WaitNode() = default;
  WaitNode(const WaitNode&) = delete;
  WaitNode& operator=(const WaitNode&) = delete;

  // The word given to Begin(); what a time-out needs.
  DecisionWord* word() const noexcept { return word_; }

  // The owner, before it enters a list; from here on, any claim may come. nullptr: only a notifier can end it (WS6).
  void Begin(DecisionWord* word) noexcept {
    result_ = WaitResult::kNotified;
    handed_on_ = false;
    word_ = word;
    token_ = this;
    // release: a canceller finds the node complete. Pairs with the acquire in ClaimFound().
    if (word != nullptr) word->store(this, std::memory_order_release);
  }

  // The same for one of the nodes of a selection (WS8): they share a word, in which its owner has written `token`.
  void BeginShared(DecisionWord* word, void* token) noexcept {
    result_ = WaitResult::kTimedOut;
    handed_on_ = false;
    word_ = word;
    token_ = token;
  }

  // For a contender that may touch the node (see the table). True: the caller has decided it, and must wake the owner.
  // False: somebody else has; the caller forgets the node.
  [[nodiscard]] bool Claim(WaitResult how) noexcept {
    if (word_ == nullptr) return true;  // WS6: the caller is a notifier and holds the lock.
    void* undecided = token_;
    // acquire: what the owner and the list's lock holders wrote to the node, for a plain thread's own time-out, which
    // holds no such lock; pairs with the release in Begin(). relaxed on failure: the node is not looked at any more.
    if (!word_->compare_exchange_strong(undecided, nullptr, std::memory_order_acquire, std::memory_order_relaxed)) {
      return false;
    }
    result_ = how;  // The wake publishes it to the owner.
    return true;
  }

  // A canceller, which knows only the word, and has read `*found` there: not null, and a node. True: it is decided, and
  // the caller must wake the node's owner. False: read anew.
  [[nodiscard]] static bool ClaimFound(DecisionWord* word, void** found, WaitResult how) noexcept {
    void* const node = *found;
    // acquire: the node, and all that its owner did before. Pairs with the release in Begin(). acquire on failure, too:
    // the fiber's next wait may have begun. That one is then to be ended, and may be a SoleWaiter's (wait_queue.h).
    if (!word->compare_exchange_weak(*found, nullptr, std::memory_order_acquire, std::memory_order_acquire))
      return false;
    static_cast<WaitNode*>(node)->result_ = how;
    return true;
  }

  // The owner, or a claimer about to take up its claim: whether it has been decided. A hint while others may claim.
  bool decided() const noexcept {
    // relaxed: whoever sees true still waits for the wake, which carries everything.
    return word_ != nullptr && word_->load(std::memory_order_relaxed) != token_;
  }

  // The winner, instead of its wake: the wait goes on in another list, whose notifiers own it without a claim (WS7).
  void HandOn() noexcept { handed_on_ = true; }

  // The owner, after its wake.
  WaitResult result() const noexcept { return result_; }

  // The owner, after its wake.
  bool handed_on() const noexcept { return handed_on_; }

  // Whoever holds the lock of the list.
  bool linked() const noexcept { return next_ != nullptr; }

 private:
  friend class WaitList;

  WaitNode* next_ = nullptr;
  WaitNode* prev_ = nullptr;
  DecisionWord* word_ = nullptr;
  void* token_ = nullptr;  // what the word holds while this is undecided
  WaitResult result_ = WaitResult::kNotified;
  bool handed_on_ = false;  // Guarded by the lock of the list.
};

// Waits in the order in which they will be notified: a ring, of which the list knows the first node. One pointer, to
// keep primitives small (base::IntrusiveList has two, and cannot be moved). All calls but empty_hint(): whoever holds
// the lock of the list, or has the list on its own stack.
class WaitList {
 public:
  constexpr WaitList() = default;
  WaitList(const WaitList&) = delete;
  WaitList& operator=(const WaitList&) = delete;

  bool empty() const noexcept { return first() == nullptr; }

  // Whether there is a wait that does not share `word`.
  bool HasOtherThan(const WaitNode::DecisionWord* word) const noexcept {
    const WaitNode* const front = first();
    if (front == nullptr) return false;
    const WaitNode* node = front;
    do {
      if (node->word() != word) return true;
      node = node->next_;
    } while (node != front);
    return false;
  }

  // Any thread. "True" is reliable for a caller that is ordered after all enqueuers it cares for by other means.
  bool empty_hint() const noexcept { return first() == nullptr; }

  WaitNode* front() const noexcept { return first(); }
  bool IsSingle() const noexcept { return first() != nullptr && first()->next_ == first(); }

  void PushBack(WaitNode* node) noexcept {
    WEFT_DCHECK(!node->linked(), "WaitList::PushBack: the wait is in a list already");
    WaitNode* front = first();
    if (front == nullptr) {
      node->next_ = node->prev_ = node;
      set_first(node);
      return;
    }
    node->next_ = front;
    node->prev_ = front->prev_;
    front->prev_->next_ = node;
    front->prev_ = node;
  }

  void PushFront(WaitNode* node) noexcept {
    PushBack(node);
    set_first(node);  // In a ring the last is the one before the first.
  }

  void Remove(WaitNode* node) noexcept {
    WEFT_DCHECK(node->linked() && !empty(), "WaitList::Remove: the wait is in no list");
    if (node->next_ == node) {
      set_first(nullptr);
    } else {
      node->prev_->next_ = node->next_;
      node->next_->prev_ = node->prev_;
      if (first() == node) set_first(node->next_);
    }
    node->next_ = node->prev_ = nullptr;
  }

  // nullptr if empty.
  WaitNode* PopFront() noexcept {
    WaitNode* node = first();
    if (node != nullptr) Remove(node);
    return node;
  }

  // The notifier: takes out the first wait that it can end; the caller must wake its owner. nullptr: there is none
  // (WS4). Waits ended by others are taken out on the way, and counted: their owners must still pass the lock (WS5).
  [[nodiscard]] WaitNode* ClaimFirst(std::uint32_t* passed_over) noexcept {
    while (WaitNode* node = PopFront()) {
      if (node->handed_on_ || node->Claim(WaitResult::kNotified)) return node;
      ++*passed_over;
    }
    return nullptr;
  }

  // The notifier: moves all waits that it can end to the back of `claimed`; the caller must wake their owners.
  void ClaimAll(WaitList* claimed, std::uint32_t* passed_over) noexcept {
    while (WaitNode* node = ClaimFirst(passed_over)) claimed->PushBack(node);
  }

 private:
  // relaxed: ordered by the lock of the list; empty_hint() carries nothing.
  WaitNode* first() const noexcept { return first_.load(std::memory_order_relaxed); }
  void set_first(WaitNode* node) noexcept { first_.store(node, std::memory_order_relaxed); }

  base::Atomic<WaitNode*> first_{nullptr};
};

}  // namespace weft::synchronization

#endif  // WEFT_SYNC_WAIT_WAIT_STATE_H_
