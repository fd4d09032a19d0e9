// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "resp_server/store.h"

#include <bit>
#include <mutex>
#include <utility>

#include "weft/base/thread/thread_annotations.h"

#include "resp_server/numbers.h"

namespace examples::resp {

// The shards of some keys, locked. (The analysis cannot tell which.)
class Store::ShardSet {
 public:
  ShardSet(Store* store, Keys keys) WEFT_NO_THREAD_SAFETY_ANALYSIS : shards_(store->shards_.get()) {
    for (const std::string_view key : keys) members_ |= std::uint64_t{1} << IndexOf(key);
    for (std::uint64_t left = members_; left != 0; left &= left - 1) shards_[std::countr_zero(left)].mutex.lock();
  }
  ~ShardSet() WEFT_NO_THREAD_SAFETY_ANALYSIS {
    for (std::uint64_t left = members_; left != 0; left &= left - 1) shards_[std::countr_zero(left)].mutex.unlock();
  }
  ShardSet(const ShardSet&) = delete;
  ShardSet& operator=(const ShardSet&) = delete;

 private:
  Shard* const shards_;
  std::uint64_t members_ = 0;
};

Store::Store(const weft::base::Clock* clock) : clock_(clock), shards_(new Shard[kShards]) {}

Store::~Store() = default;

// By the high bits: the map uses the low ones.
std::size_t Store::IndexOf(std::string_view key) {
  static_assert(kShards == 64 && sizeof(std::size_t) == 8);
  return Hash()(key) >> 58;
}

Store::Item* Store::Find(Shard* shard, std::string_view key) {
  const auto found = shard->map.find(key);
  if (found == shard->map.end()) return nullptr;
  const Entry& entry = found->second;
  if (entry.expires && entry.expiry->first <= clock_->now()) [[unlikely]] {
    ++shard->expired;
    EraseItem(shard, &*found);
    return nullptr;
  }
  return &*found;
}

ValueRef Store::GetLocked(Shard* shard, std::string_view key) {
  const Item* item = Find(shard, key);
  ++(item != nullptr ? shard->hits : shard->misses);
  return item != nullptr ? item->second.value : nullptr;
}

Store::Item* Store::Insert(Shard* shard, std::string_view key) {
  return &*shard->map.try_emplace(std::string(key)).first;
}

void Store::SetExpiry(Shard* shard, Item* item, std::optional<TimePoint> at) {
  Entry& entry = item->second;
  if (entry.expires) shard->expiries.erase(entry.expiry);
  entry.expires = at.has_value();
  if (at) entry.expiry = shard->expiries.emplace(*at, item);
}

void Store::EraseItem(Shard* shard, Item* item) {
  SetExpiry(shard, item, std::nullopt);
  shard->map.erase(shard->map.find(std::string_view(item->first)));
}

ValueRef Store::Get(std::string_view key) {
  Shard& shard = ShardOf(key);
  const std::lock_guard guard(shard.mutex);
  return GetLocked(&shard, key);
}

std::vector<ValueRef> Store::Get(Keys keys) {
  std::vector<ValueRef> values;
  values.reserve(keys.size());
  const ShardSet locked(this, keys);
  for (const std::string_view key : keys) values.push_back(GetLocked(&ShardOf(key), key));
  return values;
}

std::size_t Store::CountExisting(Keys keys) {
  std::size_t count = 0;
  const ShardSet locked(this, keys);
  for (const std::string_view key : keys) count += Find(&ShardOf(key), key) != nullptr ? 1 : 0;
  return count;
}

bool Store::Set(std::string_view key, ValueRef value, const SetOptions& options) {
  ValueRef old;  // Released after the unlock (KV2).
  Shard& shard = ShardOf(key);
  const std::lock_guard guard(shard.mutex);
  Item* item = Find(&shard, key);
  if (options.when != When::kAlways && (options.when == When::kIfAbsent) == (item != nullptr)) return false;
  if (item == nullptr) item = Insert(&shard, key);
  old = std::exchange(item->second.value, std::move(value));
  if (!options.keep_expiry) SetExpiry(&shard, item, options.expires_at);
  return true;
}

void Store::Set(Keys keys, std::span<ValueRef> values) {
  const ShardSet locked(this, keys);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    Shard& shard = ShardOf(keys[i]);
    Item* item = Find(&shard, keys[i]);
    if (item == nullptr) item = Insert(&shard, keys[i]);
    std::swap(item->second.value, values[i]);  // The caller frees the old one.
    SetExpiry(&shard, item, std::nullopt);
  }
}

Store::AddResult Store::Add(std::string_view key, std::int64_t number, std::int64_t* sum) {
  Shard& shard = ShardOf(key);
  const std::lock_guard guard(shard.mutex);
  Item* item = Find(&shard, key);
  std::int64_t before = 0;
  if (item != nullptr && !ParseNumber(item->second.value->bytes(), &before)) return AddResult::kNotANumber;
  if (__builtin_add_overflow(before, number, sum)) return AddResult::kOverflow;
  if (item == nullptr) item = Insert(&shard, key);
  item->second.value = Value::Make(NumberText(*sum).view());
  return AddResult::kDone;
}

std::size_t Store::Erase(Keys keys) {
  std::vector<ValueRef> old;  // Released after the unlock (KV2).
  old.reserve(keys.size());
  const ShardSet locked(this, keys);
  for (const std::string_view key : keys) {
    Shard& shard = ShardOf(key);
    Item* item = Find(&shard, key);
    if (item == nullptr) continue;
    old.push_back(std::move(item->second.value));
    EraseItem(&shard, item);
  }
  return old.size();
}

bool Store::ExpireAt(std::string_view key, TimePoint at) {
  Shard& shard = ShardOf(key);
  const std::lock_guard guard(shard.mutex);
  Item* item = Find(&shard, key);
  if (item == nullptr) return false;
  if (at <= clock_->now()) {
    EraseItem(&shard, item);
  } else {
    SetExpiry(&shard, item, at);
  }
  return true;
}

std::optional<weft::Deadline> Store::ExpiryOf(std::string_view key) {
  Shard& shard = ShardOf(key);
  const std::lock_guard guard(shard.mutex);
  const Item* item = Find(&shard, key);
  if (item == nullptr) return std::nullopt;
  return item->second.expires ? weft::Deadline(item->second.expiry->first) : weft::Deadline::None();
}

void Store::Clear() {
  for (std::size_t i = 0; i < kShards; ++i) {
    Shard& shard = shards_[i];
    Map map;  // Destroyed after the unlock (KV2).
    ExpiryQueue expiries;
    const std::lock_guard guard(shard.mutex);
    shard.map.swap(map);
    shard.expiries.swap(expiries);
  }
}

std::size_t Store::RemoveExpired(std::size_t most) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < kShards; ++i) {
    Shard& shard = shards_[i];
    const std::lock_guard guard(shard.mutex);
    if (shard.expiries.empty()) continue;
    const TimePoint now = clock_->now();
    for (std::size_t n = 0; n < most && !shard.expiries.empty() && shard.expiries.begin()->first <= now; ++n) {
      EraseItem(&shard, shard.expiries.begin()->second);
      ++shard.expired;
      ++count;
    }
  }
  return count;
}

Store::Counts Store::counts() {
  Counts sum;
  for (std::size_t i = 0; i < kShards; ++i) {
    Shard& shard = shards_[i];
    const std::lock_guard guard(shard.mutex);
    sum.keys += shard.map.size();
    sum.expiring += shard.expiries.size();
    sum.hits += shard.hits;
    sum.misses += shard.misses;
    sum.expired += shard.expired;
  }
  return sum;
}

}  // namespace examples::resp
