// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// The memory of the interleaving explorer: what an atomic operation may do under C++20, as an abstract machine.
//
// The machine is the view-based one of Kang et al., "A promising semantics for relaxed-memory concurrency" (POPL 2017),
// without promises. Each location keeps every value stored to it ("messages"), in modification order. Each thread has a
// view: of each location, the oldest message it may still read.
//
//   load            may return any message not older than the view, which moves up to it
//   store           may enter the modification order anywhere behind the view, but not between a message and the
//                   read-modify-write that replaced it
//   RMW             reads as a load does, a message that no other RMW has replaced, and enters right behind it
//   release store   its message carries the thread's view; a relaxed one that of the thread's last release fence; that
//                   of an RMW also carries what the replaced message carried (release sequence)
//   acquire load    the thread's view joins the message's; after a relaxed load the next acquire fence does that
//   seq_cst fence   the thread's view and one global view are joined and become the join
//   HeavyFence      a seq_cst fence of the caller, of each other thread (wherever it stands), and of the caller again
//   seq_cst access  release / acquire, and it does not read behind the global view of its location, which moves up to
//                   it. Unlike the fence it orders no other access of its thread (as on x86 and AArch64: a relaxed
//                   store before a seq_cst load may be delayed past it). It comes in the total order of seq_cst
//                   operations where it is performed; C++20 also lets it come before another that was performed
//                   earlier, if only relaxed accesses lead from that one to it: the machine misses these outcomes. With
//                   fences it misses none (axioms_test.cc).
//
// Vector clocks travel with the views. They are happens-before exactly: a seq_cst fence moves views, not clocks. They
// show data races, and uses of an object before its construction or after its destruction.
//
// Every outcome of x86-TSO (a store delayed in a store buffer: other threads still read the old message) is an outcome
// of this machine; it is weaker than TSO, and weaker than AArch64 but for load buffering.
#ifndef WEFT_TESTS_TESTING_INTERLEAVE_MEMORY_H_
#define WEFT_TESTS_TESTING_INTERLEAVE_MEMORY_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace weft::model {

inline constexpr int kMaxThreads = 8;  // thread 0 sets up and checks the end
inline constexpr int kMaxLocations = 64;
inline constexpr int kMaxData = 128;
inline constexpr int kMaxMessages = 4096;  // in one execution
inline constexpr int kMaxMessagesOfLocation = 256;

// Mixes two words well: identifiers of points of executions are built of these.
inline std::uint64_t Mix(std::uint64_t a, std::uint64_t b) noexcept {
  std::uint64_t x = a * 0x9E3779B97F4A7C15u + (b ^ (b >> 32)) * 0xD6E8FEB86659FD93u + 0x2545F4914F6CDD1Du;
  x ^= x >> 32;
  x *= 0xD6E8FEB86659FD93u;
  x ^= x >> 29;
  x *= 0x9FB21C651E98DF25u;
  return x ^ (x >> 32);
}

// The part of each thread's past that is known to have happened before.
struct Clock {
  std::array<std::uint32_t, kMaxThreads> at{};
  void Join(const Clock& other) noexcept {
    for (int i = 0; i < kMaxThreads; ++i) {
      if (other.at[i] > at[i]) at[i] = other.at[i];
    }
  }
};

using MessageIndex = std::uint16_t;  // 0: none; older than all

// The knowledge of a thread, or of a message.
struct Knowledge {
  Clock clock;
  std::array<MessageIndex, kMaxLocations> seen{};
};

// Where an operation has more than one outcome. Outcome 0 is the one of a sequentially consistent machine.
class OutcomeChooser {
 public:
  virtual int ChooseOutcome(int count) = 0;
  virtual bool ChooseSpuriousFailure() = 0;

 protected:
  ~OutcomeChooser() = default;
};

// What a memory operation did, for the trace.
struct AccessResult {
  int location = 0;
  std::uint64_t read = 0;     // the value read
  std::uint64_t written = 0;  // the value stored
  std::uint64_t newest = 0;   // what the newest value was before
  bool wrote = false;
  bool weak = false;  // not the outcome of a sequentially consistent machine
  const char* error = nullptr;
};

struct CompareExchange {
  std::uint64_t expected;
  std::uint64_t desired;
  std::memory_order success;
  std::memory_order failure;
  bool weak;
};

class Memory {
 public:
  explicit Memory(OutcomeChooser* chooser);

  void Reset();
  void StartThread(int thread);  // by thread 0
  void JoinThread(int thread);   // by thread 0

  // Atomic locations. `storage` holds the newest value. An unknown one gets the value in `storage`, known to everybody.
  [[nodiscard]] const char* Construct(int thread, void* storage, std::size_t size);
  [[nodiscard]] const char* Destroy(int thread, const void* storage);
  AccessResult Load(int thread, const void* storage, std::size_t size, std::memory_order order);
  AccessResult Store(int thread, void* storage, std::size_t size, std::uint64_t value, std::memory_order order);
  // `update`: the value to store, from the one read.
  template <class Update>
  AccessResult ReadModifyWrite(int thread, void* storage, std::size_t size, std::memory_order order, Update update);
  AccessResult Exchange(int thread, void* storage, std::size_t size, const CompareExchange& operation);
  void Fence(int thread, std::memory_order order);

  // The newest value: what the kernel compares.
  AccessResult Newest(int thread, const void* storage, std::size_t size);

  // Plain data.
  [[nodiscard]] const char* ConstructData(int thread, const void* address);
  [[nodiscard]] const char* AccessData(int thread, const void* address, bool write);
  [[nodiscard]] const char* DestroyData(int thread, const void* address);

  // All within was freed.
  [[nodiscard]] const char* Freed(int thread, const void* address, std::size_t size);

  // Blocking primitives.
  void Release(int thread, Knowledge* into);
  void Acquire(int thread, const Knowledge& from);

  // Anything else that the thread did: `what` names it and its outcome.
  void Happened(int thread, std::uint64_t what);

  // Identifies the point of the execution.
  std::uint64_t Fingerprint() const noexcept { return threads_hash_ + locations_hash_ + global_hash_; }

  const void* AddressOf(int location) const noexcept { return locations_[location].address; }
  std::size_t SizeOf(int location) const noexcept { return locations_[location].size; }

 private:
  struct Message {
    Knowledge carried;
    std::uint64_t value;
    std::uint64_t id;
    std::uint16_t location;
    std::uint16_t position;  // in the modification order
    bool replaced;           // by an RMW: nothing may come in between
  };
  // When an object came and went, and who used it last.
  struct Lifetime {
    bool alive;
    std::uint8_t born_by;
    std::uint32_t born_at;
    Clock used;
  };
  struct Location {
    const void* address;
    std::size_t size;
    std::uint64_t id;
    std::uint64_t hash;
    Lifetime life;
    int count;
    std::array<MessageIndex, kMaxMessagesOfLocation> order;
  };
  struct Datum {
    const void* address;
    Lifetime life;
    int writer;
    std::uint32_t written_at;
    Clock read_at;
  };
  struct Thread {
    Knowledge current;
    Knowledge on_acquire;  // what relaxed loads have seen: joins at an acquire fence
    Knowledge on_release;  // as of the last release fence: what relaxed stores carry
    std::uint64_t history;
    std::uint32_t births;
  };
  struct Entry {  // of the table of addresses
    const void* address = nullptr;
    std::uint32_t generation = 0;
    std::int16_t index = 0;
    bool is_data = false;
  };
  static constexpr std::size_t kTableSize = 1024;

  Entry& Find(const void* address, bool is_data) noexcept;
  int Locate(void* storage, std::size_t size);
  int AddLocation(int thread, const void* storage, std::size_t size, std::uint64_t value);

  std::uint32_t Tick(int thread, std::uint64_t what) noexcept;
  const char* Use(int thread, Lifetime* life) noexcept;
  static const char* CheckEnd(const Clock& clock, int thread, const Lifetime& life) noexcept;

  bool Later(MessageIndex a, MessageIndex b) const noexcept { return messages_[a].position > messages_[b].position; }
  void Join(Knowledge* into, const Knowledge& from) noexcept;
  void JoinSeen(Knowledge* into, const Knowledge& from) noexcept;
  int OldestPosition(int thread, int location, std::memory_order order) const noexcept;
  int ReadAt(int thread, int location, int position, std::memory_order order) noexcept;
  void Insert(int thread, int location, int position, std::uint64_t value, std::memory_order order,
              const Message* replaced);
  int ChoosePosition(int thread, int location, std::memory_order order, bool for_update, AccessResult* result);
  AccessResult Begin(int thread, const void* storage, std::size_t size, std::uint64_t what);
  void RehashLocation(Location* location) noexcept;
  void RehashGlobal() noexcept;
  void SetNewest(int location) noexcept;

  OutcomeChooser* const chooser_;
  std::array<Thread, kMaxThreads> threads_;
  Knowledge global_;  // of seq_cst operations; its clock is not used
  std::unique_ptr<Location[]> locations_;
  int location_count_ = 0;
  std::unique_ptr<Datum[]> data_;
  int data_count_ = 0;
  std::unique_ptr<Message[]> messages_;
  int message_count_ = 0;
  std::array<Entry, kTableSize> table_;
  std::uint32_t generation_ = 0;
  std::uint64_t threads_hash_ = 0;
  std::uint64_t locations_hash_ = 0;
  std::uint64_t global_hash_ = 0;
};

template <class Update>
AccessResult Memory::ReadModifyWrite(int thread, void* storage, std::size_t size, std::memory_order order,
                                     Update update) {
  AccessResult result = Begin(thread, storage, size, /*what=*/3);
  if (result.error != nullptr) return result;
  const int position = ChoosePosition(thread, result.location, order, /*for_update=*/true, &result);
  const int message = ReadAt(thread, result.location, position, order);
  result.read = messages_[message].value;
  result.written = update(result.read);
  result.wrote = true;
  Insert(thread, result.location, position + 1, result.written, order, &messages_[message]);
  return result;
}

}  // namespace weft::model

#endif  // WEFT_TESTS_TESTING_INTERLEAVE_MEMORY_H_
