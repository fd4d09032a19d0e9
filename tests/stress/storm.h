// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// The storm of lifetime_storm_test.cc: what its fibers share (Sky), and how one of them lives (Storm).
//
//   storm_lives.cc     families of fibers, tasks, interruptions: how they are made and left
//   storm_waits.cc     waits at what all share, most of which may be cut short
//   storm_relays.cc    waits that must end: the waker is sure to come, beside waiters that give up
//   storm_sockets.cc   waits at descriptors
//
// A wait that must end is made under a shield and without a deadline. So a wake-up that is lost is not papered over by
// the cancellation at the storm's end: the fiber stays, and the test says where (Sky::WhereFibersAre).
#ifndef WEFT_TESTS_STRESS_STORM_H_
#define WEFT_TESTS_STRESS_STORM_H_

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>

#include "weft/base/deadline.h"
#include "weft/fiber/fiber_scope.h"
#include "weft/io/socket_address.h"
#include "weft/io/tcp_listener.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_blocking_bounded_queue.h"
#include "weft/sync/fiber_channel.h"
#include "weft/sync/fiber_condition_variable.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_mutex.h"
#include "weft/sync/fiber_semaphore.h"
#include "weft/sync/fiber_seqlock.h"
#include "weft/sync/fiber_shared_mutex.h"
#include "weft/sync/fiber_timed_mutex.h"

namespace weft::fiber {

class Interruption {};  // no std::exception: nothing but the storm catches it

// Where a fiber is.
enum class Place : std::uint8_t {
  kSleep,
  kYield,
  kPermits,
  kChannelPut,
  kChannelGet,
  kQueuePut,
  kQueueGet,
  kSelect,
  kChanged,
  kChange,
  kSharedEvent,
  kReadWrite,
  kTimedMutex,
  kSeqLock,
  kBlocking,
  kWaitFd,
  kAccept,
  kConnect,
  kSemaphoreRelay,
  kChannelRelay,
  kQueueRelay,
  kConditionRelay,
  kEventGate,
  kLatchGate,
  kBarrier,
  kTimerGate,
  kFuture,
  kMailbox,
  kStreams,
  kTask,
  kCount,
};

// What the fibers share.
struct Sky {
  static constexpr int kPermits = 16;

  FiberSemaphore permits{kPermits};
  FiberChannel<int> channel{8};
  FiberChannel<int> rendezvous{0};
  FiberBlockingBoundedQueue<int> queue{8};
  FiberMutex mutex;
  FiberConditionVariable changed;
  int version = 0;  // guarded by mutex
  FiberEvent event;
  FiberSharedMutex shared_mutex;
  int left = 0;  // guarded by shared_mutex, both; equal
  int right = 0;
  FiberTimedMutex timed_mutex;
  int timed_sections = 0;  // guarded by timed_mutex
  std::atomic<int> sections{0};
  FiberSeqLock seqlock;
  std::atomic<int> first{0};  // guarded by seqlock, both; equal
  std::atomic<int> second{0};
  io::TcpListener tcp;
  io::SocketAddress tcp_address;
  io::UnixListener local;
  io::SocketAddress local_address;

  std::atomic<int> put{0};                 // items that were put
  std::atomic<int> got{0};                 // and got
  std::atomic<int> holding{0};             // permits
  std::atomic<std::uint64_t> accepted{0};  // connections
  std::atomic<std::uint64_t> echoed{0};    // bytes that came back
  std::atomic<std::uint64_t> fibers{0};
  std::atomic<std::uint64_t> cancelled{0};
  std::atomic<bool> over{false};
  std::array<std::atomic<std::uint64_t>, static_cast<std::size_t>(Place::kCount)> visits{};
  std::array<std::atomic<int>, static_cast<std::size_t>(Place::kCount)> inside{};

  // The places, by number, and how many fibers are in each; without those where nobody is.
  std::string WhereFibersAre() const;
};

class Storm {
 public:
  Storm(Sky* sky, std::uint64_t seed) : sky_(sky), random_(seed) {}

  // A fiber's life: waits here and there, and below it other fibers.
  void Live(int depth);

 private:
  // A fiber is at a place.
  class Visit {
   public:
    Visit(Sky* sky, Place place) : inside_(&sky->inside[static_cast<std::size_t>(place)]) {
      sky->visits[static_cast<std::size_t>(place)].fetch_add(1, std::memory_order_relaxed);
      inside_->fetch_add(1, std::memory_order_relaxed);
    }
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;
    ~Visit() { inside_->fetch_sub(1, std::memory_order_relaxed); }

   private:
    std::atomic<int>* const inside_;
  };

  // storm_lives.cc
  void Family(int depth);
  void LiveInFamily(FiberScope* scope, CancelScope* around, int depth);
  void InterruptOne(int depth);
  void RunTask(int depth);

  // storm_waits.cc
  void WaitSomewhere();
  void WaitAt(Place place);
  void Sleep();
  void TakePermit();
  void SelectOne();
  void AwaitChange();
  void Change();
  void ReadOrWrite();
  void LockInTime();
  void ReadOrWriteSequence();
  void SetOrAwaitEvent();

  // storm_relays.cc
  void WaitForCertain(Place place);
  template <class Pass, class Take>
  bool Relay(bool passed_on, Pass pass, Take take);
  void RelayPermit();
  void RelayThroughChannel();
  void RelayThroughQueue();
  void RelayByCondition();
  void PassEvent();
  void PassLatch();
  void MeetAtBarrier();
  void AwaitTimer();
  void AwaitFuture();
  void UseMailbox();

  // storm_sockets.cc
  void UseSockets(Place place);
  void AwaitDescriptor();
  void AcceptOne();
  void ConnectOnce();
  void ReadHalfAndHalf();

  int Below(int n) { return static_cast<int>(random_() % static_cast<std::uint64_t>(n)); }
  std::chrono::microseconds Soon(int at_most) { return std::chrono::microseconds(Below(at_most)); }
  Deadline SoonOrNever() { return Below(2) == 0 ? Deadline(Soon(2000)) : Deadline::None(); }

  Sky* const sky_;
  std::mt19937_64 random_;
};

}  // namespace weft::fiber

#endif  // WEFT_TESTS_STRESS_STORM_H_
