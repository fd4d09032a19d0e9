// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// IntrusiveList: a doubly linked list through a member of its elements. No allocation; an element leaves in O(1).
// Sample:
//     struct Waiter { ListHook hook; ... };
//     IntrusiveList<Waiter, &Waiter::hook> waiters;
//
// A ring through a sentinel that lives in the list, so that no operation branches on "first" or "last".
//
// Invariants
//   LI1  A hook is in at most one list; hook.linked() says whether it is in one.
//   LI2  An element may not be destroyed while linked, nor a list while it has elements (checked in debug builds).
// Not thread-safe: the owner's lock guards the list and the hooks in it, linked() included.
#ifndef WEFT_BASE_MEMORY_INTRUSIVE_LIST_H_
#define WEFT_BASE_MEMORY_INTRUSIVE_LIST_H_

#include <bit>
#include <cstddef>
#include <iterator>

#include "weft/base/report/check.h"

namespace weft::base {

class ListHook {
 public:
  constexpr ListHook() = default;
  ListHook(const ListHook&) = delete;
  ListHook& operator=(const ListHook&) = delete;
  ~ListHook() { WEFT_DCHECK(!linked(), "destroyed while in a list"); }

  bool linked() const noexcept { return next_ != nullptr; }

 private:
  template <class T, ListHook T::*kHook>
  friend class IntrusiveList;

  struct SentinelTag {};
  explicit constexpr ListHook(SentinelTag) noexcept : next_(this), prev_(this) {}

  void InsertBefore(ListHook* position) noexcept {
    next_ = position;
    prev_ = position->prev_;
    prev_->next_ = this;
    position->prev_ = this;
  }
  void Unlink() noexcept {
    prev_->next_ = next_;
    next_->prev_ = prev_;
    next_ = prev_ = nullptr;
  }

  ListHook* next_ = nullptr;
  ListHook* prev_ = nullptr;
};

template <class T, ListHook T::*kHook>
class IntrusiveList {
 public:
  class Iterator {
   public:
    using iterator_category = std::bidirectional_iterator_tag;
    using value_type = T;
    using difference_type = std::ptrdiff_t;
    using pointer = T*;
    using reference = T&;

    Iterator() = default;
    T& operator*() const noexcept { return *ToElement(at_); }
    T* operator->() const noexcept { return ToElement(at_); }
    Iterator& operator++() noexcept {
      at_ = at_->next_;
      return *this;
    }
    Iterator operator++(int) noexcept {
      Iterator before = *this;
      at_ = at_->next_;
      return before;
    }
    Iterator& operator--() noexcept {
      at_ = at_->prev_;
      return *this;
    }
    Iterator operator--(int) noexcept {
      Iterator before = *this;
      at_ = at_->prev_;
      return before;
    }
    friend bool operator==(Iterator a, Iterator b) noexcept { return a.at_ == b.at_; }

   private:
    friend class IntrusiveList;
    explicit Iterator(ListHook* at) noexcept : at_(at) {}
    ListHook* at_ = nullptr;
  };

  constexpr IntrusiveList() noexcept = default;
  IntrusiveList(IntrusiveList&& other) noexcept { splice_back(other); }
  IntrusiveList& operator=(IntrusiveList&&) = delete;
  ~IntrusiveList() {
    WEFT_DCHECK(empty(), "a list was destroyed with elements in it");
    head_.next_ = head_.prev_ = nullptr;
  }

  bool empty() const noexcept { return head_.next_ == &head_; }

  T* front() noexcept { return empty() ? nullptr : ToElement(head_.next_); }
  T* back() noexcept { return empty() ? nullptr : ToElement(head_.prev_); }

  void push_front(T* element) noexcept { insert(begin(), element); }
  void push_back(T* element) noexcept { insert(end(), element); }
  void insert(Iterator before, T* element) noexcept {
    WEFT_DCHECK(!(element->*kHook).linked(), "an element is in a list already");
    (element->*kHook).InsertBefore(before.at_);
  }

  T* pop_front() noexcept {
    T* element = front();
    if (element != nullptr) (element->*kHook).Unlink();
    return element;
  }
  T* pop_back() noexcept {
    T* element = back();
    if (element != nullptr) (element->*kHook).Unlink();
    return element;
  }

  // `element` is in this list.
  void erase(T* element) noexcept {
    WEFT_DCHECK((element->*kHook).linked(), "an element is in no list");
    (element->*kHook).Unlink();
  }

  // Moves all of `other` behind our last element, in their order; O(1).
  void splice_back(IntrusiveList& other) noexcept {
    if (other.empty()) return;
    ListHook* first = other.head_.next_;
    ListHook* last = other.head_.prev_;
    other.head_.next_ = other.head_.prev_ = &other.head_;
    first->prev_ = head_.prev_;
    head_.prev_->next_ = first;
    last->next_ = &head_;
    head_.prev_ = last;
  }

  Iterator begin() noexcept { return Iterator(head_.next_); }
  Iterator end() noexcept { return Iterator(&head_); }

 private:
  // A pointer to a data member is its offset in the Itanium C++ ABI, which Linux uses on all its processors.
  static T* ToElement(ListHook* hook) noexcept {
    static_assert(sizeof(kHook) == sizeof(std::ptrdiff_t));  // NOLINT(bugprone-sizeof-expression): meant so.
    return reinterpret_cast<T*>(reinterpret_cast<char*>(hook) - std::bit_cast<std::ptrdiff_t>(kHook));
  }

  ListHook head_{ListHook::SentinelTag{}};
};

}  // namespace weft::base

#endif  // WEFT_BASE_MEMORY_INTRUSIVE_LIST_H_
