// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
#include "weft/tests/testing/interleave_memory.h"

#include <algorithm>
#include <cstring>

namespace weft::model {
namespace {

constexpr const char* kUsedAfterDestruction = "an object is used after its destruction";
constexpr const char* kUsedBeforeConstruction =
    "an object is used by a thread to which its construction has not happened before";
constexpr const char* kDestroyedInUse =
    "an object is destroyed though a use of it by another thread has not happened before";
constexpr const char* kRace = "data race: another access has not happened before this one";
constexpr const char* kTooManyLocations = "the explorer is too small for this scenario: raise kMaxLocations";
constexpr const char* kTooManyData = "the explorer is too small for this scenario: raise kMaxData";
constexpr const char* kTooManyMessages =
    "the explorer is too small for this scenario: raise kMaxMessages, kMaxMessagesOfLocation";

// The operations of a thread, as its history counts them.
enum What : std::uint64_t {
  kLoad = 1,
  kStore = 2,
  kExchange = 4,  // 3: ReadModifyWrite()
  kFence = 5,
  kAcquire = 6,
  kNewest = 7,
  kStart = 8,
  kEnd = 9,
};

bool Acquires(std::memory_order order) {
  return order == std::memory_order_acquire || order == std::memory_order_acq_rel || order == std::memory_order_seq_cst;
}

bool Releases(std::memory_order order) {
  return order == std::memory_order_release || order == std::memory_order_acq_rel || order == std::memory_order_seq_cst;
}

bool IsSequential(std::memory_order order) { return order == std::memory_order_seq_cst; }

std::uint64_t ReadStorage(const void* storage, std::size_t size) {
  std::uint64_t value = 0;
  std::memcpy(&value, storage, size);
  return value;
}

}  // namespace

Memory::Memory(OutcomeChooser* chooser)
    : chooser_(chooser),
      locations_(new Location[kMaxLocations]),
      data_(new Datum[kMaxData]),
      messages_(new Message[kMaxMessages]) {
  messages_[0] = {};
}

void Memory::Reset() {
  location_count_ = 0;
  data_count_ = 0;
  message_count_ = 1;
  ++generation_;
  threads_ = {};
  global_ = {};
  threads_hash_ = locations_hash_ = global_hash_ = 0;
}

void Memory::StartThread(int thread) {
  Tick(0, kStart);
  threads_[thread].current = threads_[0].current;
  threads_[thread].history = thread;
}

void Memory::JoinThread(int thread) {
  Tick(thread, kEnd);
  Join(&threads_[0].current, threads_[thread].current);
}

// --- Objects ---

Memory::Entry& Memory::Find(const void* address, bool is_data) noexcept {
  std::size_t i = Mix(reinterpret_cast<std::uintptr_t>(address), is_data) % kTableSize;
  for (;; i = (i + 1) % kTableSize) {
    Entry& entry = table_[i];
    if (entry.generation != generation_) {
      entry = {.address = address, .generation = generation_, .index = -1, .is_data = is_data};
      return entry;
    }
    if (entry.address == address && entry.is_data == is_data) return entry;
  }
}

int Memory::AddLocation(int thread, const void* storage, std::size_t size, std::uint64_t value) {
  if (location_count_ == kMaxLocations || message_count_ == kMaxMessages) return -1;
  const int index = location_count_++;
  Location& location = locations_[index];
  location.address = storage;
  location.size = size;
  // The order in which threads create locations depends on the schedule; this does not.
  location.id = Mix(thread + 1, ++threads_[thread].births);
  location.life = {};
  location.life.alive = true;
  location.life.born_by = static_cast<std::uint8_t>(thread);
  location.life.born_at = threads_[thread].current.clock.at[thread] + 1;
  location.count = 1;
  const auto first = static_cast<MessageIndex>(message_count_++);
  location.order[0] = first;
  Message& message = messages_[first];
  message = {};
  message.value = value;
  message.id = location.id;
  message.location = static_cast<std::uint16_t>(index);
  location.hash = 0;
  RehashLocation(&location);
  return index;
}

const char* Memory::Construct(int thread, void* storage, std::size_t size) {
  const int index = AddLocation(thread, storage, size, ReadStorage(storage, size));
  if (index < 0) return kTooManyLocations;
  Find(storage, /*is_data=*/false).index = static_cast<std::int16_t>(index);
  return nullptr;
}

const char* Memory::CheckEnd(const Clock& clock, int thread, const Lifetime& life) noexcept {
  if (!life.alive) return kUsedAfterDestruction;
  if (life.born_by != thread && clock.at[life.born_by] < life.born_at) return kUsedBeforeConstruction;
  for (int other = 0; other < kMaxThreads; ++other) {
    if (other != thread && life.used.at[other] > clock.at[other]) return kDestroyedInUse;
  }
  return nullptr;
}

const char* Memory::Destroy(int thread, const void* storage) {
  const Entry& entry = Find(storage, /*is_data=*/false);
  if (entry.index < 0) return nullptr;
  Lifetime& life = locations_[entry.index].life;
  const char* error = CheckEnd(threads_[thread].current.clock, thread, life);
  life.alive = false;
  return error;
}

const char* Memory::Use(int thread, Lifetime* life) noexcept {
  if (!life->alive) return kUsedAfterDestruction;
  const Clock& clock = threads_[thread].current.clock;
  if (life->born_by != thread && clock.at[life->born_by] < life->born_at) return kUsedBeforeConstruction;
  return nullptr;
}

const char* Memory::Freed(int thread, const void* address, std::size_t size) {
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  const auto inside = [&](const void* p) {
    const auto at = reinterpret_cast<std::uintptr_t>(p);
    return begin <= at && at < begin + size;
  };
  const char* error = nullptr;
  const auto end = [&](Lifetime* life) {
    if (!life->alive) return;
    if (error == nullptr) error = CheckEnd(threads_[thread].current.clock, thread, *life);
    life->alive = false;
  };
  for (int i = 0; i < location_count_; ++i) {
    if (inside(locations_[i].address)) end(&locations_[i].life);
  }
  for (int i = 0; i < data_count_; ++i) {
    if (inside(data_[i].address)) end(&data_[i].life);
  }
  return error;
}

// --- Views, clocks, fingerprints ---

std::uint32_t Memory::Tick(int thread, std::uint64_t what) noexcept {
  Happened(thread, what);
  return ++threads_[thread].current.clock.at[thread];
}

void Memory::Happened(int thread, std::uint64_t what) {
  Thread& t = threads_[thread];
  threads_hash_ -= Mix(thread, t.history);
  t.history = Mix(t.history, what);
  threads_hash_ += Mix(thread, t.history);
}

void Memory::JoinSeen(Knowledge* into, const Knowledge& from) noexcept {
  for (int i = 0; i < location_count_; ++i) {
    if (into->seen[i] != from.seen[i] && Later(from.seen[i], into->seen[i])) into->seen[i] = from.seen[i];
  }
}

void Memory::Join(Knowledge* into, const Knowledge& from) noexcept {
  into->clock.Join(from.clock);
  JoinSeen(into, from);
}

void Memory::RehashLocation(Location* location) noexcept {
  locations_hash_ -= location->hash;
  std::uint64_t hash = location->id;
  for (int i = 0; i < location->count; ++i) hash = Mix(hash, messages_[location->order[i]].id);
  location->hash = hash;
  locations_hash_ += hash;
}

void Memory::RehashGlobal() noexcept {
  global_hash_ = 0;
  for (int i = 0; i < location_count_; ++i) {
    if (messages_[global_.seen[i]].position != 0) {  // The first message is seen by all that know the location.
      global_hash_ += Mix(~locations_[i].id, messages_[global_.seen[i]].id);
    }
  }
}

// --- Atomic accesses ---

AccessResult Memory::Begin(int thread, const void* storage, std::size_t size, std::uint64_t what) {
  AccessResult result;
  Entry& entry = Find(storage, /*is_data=*/false);
  if (entry.index < 0) {
    entry.index = static_cast<std::int16_t>(AddLocation(0, storage, size, ReadStorage(storage, size)));
    if (entry.index < 0) {
      result.error = kTooManyLocations;
      return result;
    }
    locations_[entry.index].life.born_at = 0;  // Initialised before all that runs here.
  }
  result.location = entry.index;
  Location& location = locations_[entry.index];
  if (message_count_ == kMaxMessages || location.count == kMaxMessagesOfLocation) result.error = kTooManyMessages;
  const std::uint32_t now = Tick(thread, Mix(what, location.id));
  if (result.error == nullptr) result.error = Use(thread, &location.life);
  location.life.used.at[thread] = now;
  result.newest = messages_[location.order[location.count - 1]].value;
  return result;
}

int Memory::OldestPosition(int thread, int location, std::memory_order order) const noexcept {
  const int known = messages_[threads_[thread].current.seen[location]].position;
  if (!IsSequential(order)) return known;
  return std::max<int>(known, messages_[global_.seen[location]].position);
}

// Which message to read, or to come right behind.
int Memory::ChoosePosition(int thread, int location, std::memory_order order, bool for_update, AccessResult* result) {
  const Location& l = locations_[location];
  const int oldest = OldestPosition(thread, location, order);
  int candidates = 0;
  for (int i = l.count - 1; i >= oldest; --i) candidates += !for_update || !messages_[l.order[i]].replaced;
  int choice = candidates == 1 ? 0 : chooser_->ChooseOutcome(candidates);
  result->weak = choice != 0;
  for (int i = l.count - 1;; --i) {
    if (for_update && messages_[l.order[i]].replaced) continue;
    if (choice-- == 0) return i;
  }
}

// Reads the message at `position`; returns its index.
int Memory::ReadAt(int thread, int location, int position, std::memory_order order) noexcept {
  Thread& t = threads_[thread];
  const MessageIndex index = locations_[location].order[position];
  const Message& message = messages_[index];
  if (Later(index, t.current.seen[location])) t.current.seen[location] = index;
  Join(Acquires(order) ? &t.current : &t.on_acquire, message.carried);
  if (IsSequential(order) && Later(index, global_.seen[location])) {
    global_.seen[location] = index;
    RehashGlobal();
  }
  Happened(thread, message.id);
  return index;
}

void Memory::Insert(int thread, int location, int position, std::uint64_t value, std::memory_order order,
                    const Message* replaced) {
  Thread& t = threads_[thread];
  Location& l = locations_[location];
  for (int i = l.count; i > position; --i) {
    l.order[i] = l.order[i - 1];
    messages_[l.order[i]].position = static_cast<std::uint16_t>(i);
  }
  const auto index = static_cast<MessageIndex>(message_count_++);
  l.order[position] = index;
  ++l.count;
  Message& message = messages_[index];
  message.value = value;
  message.location = static_cast<std::uint16_t>(location);
  message.position = static_cast<std::uint16_t>(position);
  message.replaced = false;
  message.id = Mix(~std::uint64_t{0} - thread, t.current.clock.at[thread]);
  message.carried = Releases(order) ? t.current : t.on_release;
  if (replaced != nullptr) {
    messages_[l.order[position - 1]].replaced = true;
    Join(&message.carried, replaced->carried);
  }
  message.carried.seen[location] = index;
  t.current.seen[location] = index;
  RehashLocation(&l);
  if (IsSequential(order)) {
    global_.seen[location] = index;
    RehashGlobal();
  }
  SetNewest(location);
}

void Memory::SetNewest(int location) noexcept {
  const Location& l = locations_[location];
  std::memcpy(const_cast<void*>(l.address), &messages_[l.order[l.count - 1]].value, l.size);
}

AccessResult Memory::Load(int thread, const void* storage, std::size_t size, std::memory_order order) {
  AccessResult result = Begin(thread, storage, size, kLoad);
  if (result.error != nullptr) return result;
  const int position = ChoosePosition(thread, result.location, order, /*for_update=*/false, &result);
  result.read = messages_[ReadAt(thread, result.location, position, order)].value;
  return result;
}

AccessResult Memory::Newest(int thread, const void* storage, std::size_t size) {
  AccessResult result = Begin(thread, storage, size, kNewest);
  if (result.error != nullptr) return result;
  result.read = result.newest;
  ReadAt(thread, result.location, locations_[result.location].count - 1, std::memory_order_relaxed);
  return result;
}

AccessResult Memory::Store(int thread, void* storage, std::size_t size, std::uint64_t value, std::memory_order order) {
  AccessResult result = Begin(thread, storage, size, kStore);
  if (result.error != nullptr) return result;
  const int behind = ChoosePosition(thread, result.location, order, /*for_update=*/true, &result);
  result.written = value;
  result.wrote = true;
  Insert(thread, result.location, behind + 1, value, order, nullptr);
  return result;
}

AccessResult Memory::Exchange(int thread, void* storage, std::size_t size, const CompareExchange& operation) {
  AccessResult result = Begin(thread, storage, size, kExchange);
  if (result.error != nullptr) return result;
  const int location = result.location;
  const Location& l = locations_[location];
  const int oldest_success = OldestPosition(thread, location, operation.success);
  const int oldest_failure = OldestPosition(thread, location, operation.failure);
  const auto possible = [&](int position) {
    const Message& message = messages_[l.order[position]];
    if (message.value == operation.expected) return position >= oldest_success && !message.replaced;
    return position >= oldest_failure;
  };
  int candidates = 0;
  for (int i = l.count - 1; i >= 0; --i) candidates += possible(i);
  int choice = candidates == 1 ? 0 : chooser_->ChooseOutcome(candidates);
  result.weak = choice != 0;
  int position = l.count - 1;
  while (!possible(position) || choice-- != 0) --position;

  const bool equal = messages_[l.order[position]].value == operation.expected;
  const bool success = equal && !(operation.weak && chooser_->ChooseSpuriousFailure());
  const int message = ReadAt(thread, location, position, success ? operation.success : operation.failure);
  result.read = messages_[message].value;
  Happened(thread, success);
  if (success) {
    result.written = operation.desired;
    result.wrote = true;
    Insert(thread, location, position + 1, operation.desired, operation.success, &messages_[message]);
  }
  return result;
}

void Memory::Fence(int thread, std::memory_order order) {
  Thread& t = threads_[thread];
  Tick(thread, kFence);
  if (Acquires(order)) Join(&t.current, t.on_acquire);
  if (IsSequential(order)) {
    Happened(thread, global_hash_);  // It learns the order of the fences.
    JoinSeen(&t.current, global_);
    JoinSeen(&global_, t.current);
    RehashGlobal();
  }
  if (Releases(order)) t.on_release = t.current;
}

void Memory::Release(int thread, Knowledge* into) {
  Tick(thread, kFence);
  Join(into, threads_[thread].current);
}

void Memory::Acquire(int thread, const Knowledge& from) {
  Tick(thread, kAcquire);
  Join(&threads_[thread].current, from);
}

// --- Plain data ---

const char* Memory::ConstructData(int thread, const void* address) {
  if (data_count_ == kMaxData) return kTooManyData;
  const int index = data_count_++;
  Datum& datum = data_[index];
  datum = {};
  datum.address = address;
  datum.life.alive = true;
  datum.life.born_by = static_cast<std::uint8_t>(thread);
  datum.life.born_at = threads_[thread].current.clock.at[thread] + 1;
  datum.writer = thread;
  datum.written_at = datum.life.born_at;
  Find(address, /*is_data=*/true).index = static_cast<std::int16_t>(index);
  return nullptr;
}

const char* Memory::AccessData(int thread, const void* address, bool write) {
  const Entry& entry = Find(address, /*is_data=*/true);
  if (entry.index < 0) return kUsedBeforeConstruction;
  Datum& datum = data_[entry.index];
  if (const char* error = Use(thread, &datum.life); error != nullptr) return error;
  // A plain access belongs to the next tick: the thread's last release does not cover it.
  const Clock& clock = threads_[thread].current.clock;
  const std::uint32_t now = clock.at[thread] + 1;
  datum.life.used.at[thread] = now;
  if (datum.writer != thread && datum.written_at > clock.at[datum.writer]) return kRace;
  if (!write) {
    datum.read_at.at[thread] = now;
    return nullptr;
  }
  for (int other = 0; other < kMaxThreads; ++other) {
    if (other != thread && datum.read_at.at[other] > clock.at[other]) return kRace;
  }
  datum.writer = thread;
  datum.written_at = now;
  return nullptr;
}

const char* Memory::DestroyData(int thread, const void* address) {
  const Entry& entry = Find(address, /*is_data=*/true);
  if (entry.index < 0) return nullptr;
  Lifetime& life = data_[entry.index].life;
  const char* error = CheckEnd(threads_[thread].current.clock, thread, life);
  life.alive = false;
  return error;
}

}  // namespace weft::model
