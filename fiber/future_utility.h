// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// WhenAll, WhenAny, WhenAnyWithoutException: one Future of many.
// Sample:
//   auto both = fiber::BlockingGet(WhenAll(fiber::Async(AskUser), fiber::Async(AskStock))).GetValue0();
//   auto stock = std::get<1>(both).GetValue0();                          // each is ready or failed
//   std::vector<Future<Reply>> replies = AskAllReplicas();
//   auto [index, reply] = WhenAny(std::move(replies)).Get();             // reply: std::tuple<Reply>
//
//   WhenAll                    is ready when all are ready or failed. Its value is a tuple, or a vector, of them, each
//                              ready or failed. It never fails. Of no Futures it is ready at once.
//   WhenAny                    has the result of the first that is ready or failed: its index and a tuple of its
//                              values, or its exception. Of no Futures it fails.
//   WhenAnyWithoutException    has the first that is ready; if all fail, the exception of the last to do so.
//
// Each takes Futures as arguments (of any types for WhenAll, of one type for the others), a pair of iterators, or a
// vector, and moves from them. Names and results are tRPC-Cpp's, but there WhenAny of none is ready, with index 0.
//
// The losers of a WhenAny go on; their results are dropped when they come. To end them is the caller's business.
// What is known of future.h holds here: who may call, memory ordering, where continuations run. Nothing here waits.
// Cost: two allocations, however many Futures there are, and one for the vector.
#ifndef WEFT_FIBER_FUTURE_UTILITY_H_
#define WEFT_FIBER_FUTURE_UTILITY_H_

#include <concepts>
#include <cstddef>
#include <iterator>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "weft/fiber/future.h"
#include "weft/fiber/future/when_state.h"

namespace weft {

template <class... Ts, class... Futures>
Future<std::tuple<Future<Ts...>, Futures...>> WhenAll(Future<Ts...>&& first, Futures&&... more) {
  using All = std::tuple<Future<Ts...>, Futures...>;
  static_assert((... && std::is_rvalue_reference_v<Futures&&>), "WhenAll takes the Futures: std::move them");
  return fiber::detail::WhenAllState<All>::Start(All(std::move(first), std::move(more)...), 1 + sizeof...(Futures));
}
inline Future<std::tuple<>> WhenAll() { return MakeReadyFuture(std::tuple<>()); }

template <class... Ts>
Future<std::vector<Future<Ts...>>> WhenAll(std::vector<Future<Ts...>>&& futures) {
  const std::size_t count = futures.size();
  return fiber::detail::WhenAllState<std::vector<Future<Ts...>>>::Start(std::move(futures), count);
}
template <std::input_iterator Iterator>
auto WhenAll(Iterator first, Iterator last) {
  return WhenAll(fiber::detail::TakeFutures(first, last));
}

template <class... Ts>
Future<std::size_t, std::tuple<Ts...>> WhenAny(std::vector<Future<Ts...>>&& futures) {
  return fiber::detail::WhenAnyState<fiber::detail::WhenAnyRule::kFirst, Ts...>::Start(std::move(futures));
}
template <std::input_iterator Iterator>
auto WhenAny(Iterator first, Iterator last) {
  return WhenAny(fiber::detail::TakeFutures(first, last));
}
template <class... Ts, std::same_as<Future<Ts...>>... Futures>
Future<std::size_t, std::tuple<Ts...>> WhenAny(Future<Ts...>&& first, Futures&&... more) {
  Future<Ts...> futures[] = {std::move(first), std::move(more)...};
  return WhenAny(std::begin(futures), std::end(futures));
}

template <class... Ts>
Future<std::size_t, std::tuple<Ts...>> WhenAnyWithoutException(std::vector<Future<Ts...>>&& futures) {
  return fiber::detail::WhenAnyState<fiber::detail::WhenAnyRule::kFirstValue, Ts...>::Start(std::move(futures));
}
template <std::input_iterator Iterator>
auto WhenAnyWithoutException(Iterator first, Iterator last) {
  return WhenAnyWithoutException(fiber::detail::TakeFutures(first, last));
}
template <class... Ts, std::same_as<Future<Ts...>>... Futures>
Future<std::size_t, std::tuple<Ts...>> WhenAnyWithoutException(Future<Ts...>&& first, Futures&&... more) {
  Future<Ts...> futures[] = {std::move(first), std::move(more)...};
  return WhenAnyWithoutException(std::begin(futures), std::end(futures));
}

}  // namespace weft

#endif  // WEFT_FIBER_FUTURE_UTILITY_H_
