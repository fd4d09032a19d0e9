// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// ChannelResult, ChannelItem<T>, ChannelIterator: how a Put() and a Get() of FiberChannel and FiberBlockingBoundedQueue
// end. Why they say it so: docs/decisions/014-results.md.
// Sample:
//   const ChannelItem<int> item = channel.Get(5ms);
//   if (item) Use(*item);                                             // like a std::optional
//   if (item.result() == ChannelResult::kTimedOut) channel.Close();   // and why there is none
#ifndef WEFT_SYNC_CHANNEL_RESULT_H_
#define WEFT_SYNC_CHANNEL_RESULT_H_

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <type_traits>
#include <utility>

namespace weft {

namespace synchronization {
template <class T>
class GetCase;
}  // namespace synchronization

template <class T>
class FiberChannel;
template <class T>
class FiberBlockingBoundedQueue;

// No `if (channel.Put(item))`: it would not say which of these is true.
enum class [[nodiscard]] ChannelResult : std::uint8_t{
    kOk,          // The item has been put, or got.
    kClosed,      // Put: closed. Get: closed, and nothing is left in it.
    kTimedOut,    // The deadline has passed.
    kWouldBlock,  // TryPut(), TryGet() only: Put() or Get() would have to wait.
};

// An item, or none and the reason. It reads like a std::optional and converts to one. It does not derive from it: two
// empty items would then compare unequal, and a std::optional<bool> would be made of whether there is an item.
template <class T>
class [[nodiscard]] ChannelItem {
 public:
  // Empty, with kWouldBlock: to be assigned to.
  ChannelItem() = default;
  ChannelItem(const ChannelItem&) = default;
  ChannelItem(ChannelItem&&) = default;  // NOLINT(performance-noexcept-move-constructor): as T's.
  ChannelItem& operator=(const ChannelItem&) = default;
  ChannelItem& operator=(ChannelItem&&) = default;  // NOLINT(performance-noexcept-move-constructor)
  // Not trivial: Get() then makes the item where its caller reads it. A trivial ChannelItem<int> is returned in two
  // registers, and the load that fills them waits until the narrower stores just before it are in the cache.
  ~ChannelItem() {}  // NOLINT(modernize-use-equals-default)

  // How the Get() ended: kOk, with an item, or why there is none.
  ChannelResult result() const noexcept { return result_; }

  // Whether there is an item: result() is kOk.
  bool has_value() const noexcept { return item_.has_value(); }
  explicit operator bool() const noexcept { return item_.has_value(); }
  T& operator*() & noexcept { return *item_; }
  const T& operator*() const& noexcept { return *item_; }
  T&& operator*() && noexcept { return *std::move(item_); }
  T* operator->() noexcept { return &*item_; }
  const T* operator->() const noexcept { return &*item_; }
  // Throws std::bad_optional_access if there is none.
  T& value() & { return item_.value(); }
  const T& value() const& { return item_.value(); }
  T&& value() && { return std::move(item_).value(); }
  // The item, copied or moved out; `other` if there is none.
  template <class U>
  T value_or(U&& other) const& {
    return item_.value_or(std::forward<U>(other));
  }
  template <class U>
  T value_or(U&& other) && {
    return std::move(item_).value_or(std::forward<U>(other));
  }
  // NOLINTBEGIN(google-explicit-constructor)
  // The item in a std::optional. The reason why there is none is lost.
  operator std::optional<T>() const& requires std::is_copy_constructible_v<T> { return item_; }
  operator std::optional<T>() && { return std::move(item_); }
  // NOLINTEND(google-explicit-constructor)

  friend bool operator==(const ChannelItem& a, const ChannelItem& b) { return a.item_ == b.item_; }
  friend bool operator==(const ChannelItem& a, const std::optional<T>& b) { return a.item_ == b; }
  template <class U>
  requires(!std::is_same_v<U, ChannelItem> && !std::is_same_v<U, std::optional<T>>) &&
      requires(const T& item, const U& value) {
    static_cast<bool>(item == value);
  }
  friend bool operator==(const ChannelItem& item, const U& value) { return item.has_value() && *item == value; }

 private:
  friend class FiberChannel<T>;
  friend class FiberBlockingBoundedQueue<T>;
  friend class synchronization::GetCase<T>;

  ChannelItem(std::optional<T>&& item, ChannelResult result) noexcept : item_(std::move(item)), result_(result) {}

  std::optional<T> item_;
  ChannelResult result_ = ChannelResult::kWouldBlock;
};

// `for (auto& item : channel)` gets items until the channel is closed and empty. A std::input_iterator: it gets an item
// when it is made (so each begin() takes one) and at each ++, which destroys the former item before it waits. Both may
// switch (a thread: block).
template <class Channel>
class ChannelIterator {
 public:
  using iterator_concept = std::input_iterator_tag;
  using value_type = typename Channel::value_type;
  using difference_type = std::ptrdiff_t;

  // Gets the first item: may switch (a thread: block).
  explicit ChannelIterator(Channel* channel) : channel_(channel) { Next(); }

  value_type& operator*() const noexcept { return *item_; }
  value_type* operator->() const noexcept { return &*item_; }
  ChannelIterator& operator++() {
    item_.reset();
    Next();
    return *this;
  }
  void operator++(int) { ++*this; }

  friend bool operator==(const ChannelIterator& iterator, std::default_sentinel_t) noexcept {
    return !iterator.item_.has_value();
  }

 private:
  void Next() {
    if (auto next = channel_->Get()) item_.emplace(*std::move(next));
  }

  Channel* channel_;
  mutable std::optional<value_type> item_;  // mutable: reading does not change which item it is.
};

}  // namespace weft

#endif  // WEFT_SYNC_CHANNEL_RESULT_H_
