// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Store: keys with values, some of which expire.
//
// Sharded by the key's hash: each shard is a hash map with a FiberMutex. A call on several keys locks their shards in
// the order of their indices, so it is atomic as in Redis and no two calls deadlock.
// Expired keys are gone for every call at once. Their memory is freed by the next call that meets them, or by
// RemoveExpired(), which finds them by a queue in each shard, ordered by time.
//
// Invariants
//   KV1  An entry is in its shard's queue, once, exactly while it expires; `Entry::expiry` is its place there.
//   KV2  Values are made and freed, and large maps destroyed, outside of the locks, except for the values of counters.
// Any fiber and any thread; a call may switch (FiberMutex). Times are the clock's.
//
// A FiberMutex, not a spin lock: an insertion allocates, and now and then grows the whole map; waiters should not spin
// then. The price is one more atomic instruction at each unlock, about a thirtieth of a pipelined request.
// The hash is std::hash, which has no secret: an attacker who chooses keys can make them collide.
#ifndef WEFT_EXAMPLES_RESP_SERVER_STORE_H_
#define WEFT_EXAMPLES_RESP_SERVER_STORE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "weft/base/deadline.h"
#include "weft/base/thread/cpu.h"
#include "weft/base/time/clock.h"
#include "weft/sync/fiber_mutex.h"

#include "resp_server/value.h"

namespace examples::resp {

class Store {
 public:
  using TimePoint = weft::base::Clock::TimePoint;
  using Keys = std::span<const std::string_view>;

  enum class When { kAlways, kIfAbsent, kIfPresent };
  struct SetOptions {
    When when = When::kAlways;
    std::optional<TimePoint> expires_at{};  // nothing: it does not, or see below
    bool keep_expiry = false;               // as the value before it
  };
  enum class AddResult { kDone, kNotANumber, kOverflow };
  struct Counts {
    std::size_t keys = 0;  // some of which may have expired
    std::size_t expiring = 0;
    std::uint64_t hits = 0;  // of Get()
    std::uint64_t misses = 0;
    std::uint64_t expired = 0;
  };

  explicit Store(const weft::base::Clock* clock);
  Store() : Store(&weft::base::SteadyClock::Get()) {}
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // nullptr: there is none.
  ValueRef Get(std::string_view key);
  // For each key; a repeated one is found each time.
  std::vector<ValueRef> Get(Keys keys);
  std::size_t CountExisting(Keys keys);

  // False: `when` did not hold.
  bool Set(std::string_view key, ValueRef value, const SetOptions& options);
  void Set(std::string_view key, ValueRef value) { (void)Set(key, std::move(value), SetOptions()); }
  // As many values as keys. Of a repeated key the last value stays.
  void Set(Keys keys, std::span<ValueRef> values);
  // The value is a decimal number, "0" if there is none; *sum is its new value.
  [[nodiscard]] AddResult Add(std::string_view key, std::int64_t number, std::int64_t* sum);

  // Returns how many there were.
  std::size_t Erase(Keys keys);
  // A time in the past erases it. False: there is no such key.
  bool ExpireAt(std::string_view key, TimePoint at);
  // Nothing: there is no such key; Deadline::None(): it does not expire.
  std::optional<weft::Deadline> ExpiryOf(std::string_view key);

  void Clear();
  // At most about `most` of each shard; returns how many in all.
  std::size_t RemoveExpired(std::size_t most);
  Counts counts();

 private:
  static constexpr std::size_t kShards = 64;  // a bit each in ShardSet; many against the workers of a machine

  struct Hash {
    using is_transparent = void;
    // Not noexcept: libstdc++ then keeps the hash in the node, and neither a growing map nor a chain computes it again.
    std::size_t operator()(std::string_view key) const { return std::hash<std::string_view>()(key); }
  };
  struct Entry;
  using Item = std::pair<const std::string, Entry>;
  using ExpiryQueue = std::multimap<TimePoint, Item*>;
  struct Entry {
    ValueRef value;
    ExpiryQueue::iterator expiry{};  // valid while `expires`
    bool expires = false;
  };
  using Map = std::unordered_map<std::string, Entry, Hash, std::equal_to<>>;
  struct alignas(weft::base::kCacheLineSize) Shard {
    weft::FiberMutex mutex;
    Map map;
    ExpiryQueue expiries;
    std::uint64_t hits = 0;
    std::uint64_t misses = 0;
    std::uint64_t expired = 0;
  };
  class ShardSet;

  Shard& ShardOf(std::string_view key) { return shards_[IndexOf(key)]; }
  static std::size_t IndexOf(std::string_view key);
  // All below: under the shard's lock.
  // nullptr: there is none; an expired one is erased.
  Item* Find(Shard* shard, std::string_view key);
  ValueRef GetLocked(Shard* shard, std::string_view key);
  static Item* Insert(Shard* shard, std::string_view key);
  static void SetExpiry(Shard* shard, Item* item, std::optional<TimePoint> at);
  static void EraseItem(Shard* shard, Item* item);

  const weft::base::Clock* const clock_;
  const std::unique_ptr<Shard[]> shards_;
};

}  // namespace examples::resp

#endif  // WEFT_EXAMPLES_RESP_SERVER_STORE_H_
