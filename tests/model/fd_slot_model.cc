// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// io/reactor/fd_slot.{h,cc} and io/reactor/readable_watch.{h,cc} through all interleavings: readers, the worker that
// polls, watches for bytes and for hang-ups, and somebody who closes. No byte is missed (FD1, RDW2), nothing is called
// on a number that is closed (FD3), a close ends all waits (FD4), events of a former use do no harm (FD2), and of all
// that would end a watch one does (FD9, RDW1, RDW5). The kernel is the scenario's; the scheduler, the timers and the
// locks are those of tests/model/stubs.
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/types.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <functional>
#include <system_error>
#include <utility>

#include "weft/io/io_result.h"
#include "weft/io/reactor/fd_slot.h"
#include "weft/io/reactor/readable_watch.h"
#include "weft/io/reactor/registration.h"
#include "weft/io/wait_fd.h"
#include "weft/tests/model/fiber_world.h"
#include "weft/tests/testing/interleave.h"

// Drain() in a thread.
extern "C" int sched_yield() noexcept {
  weft::model::SpinHint();
  return 0;
}

namespace weft::io {

namespace {

using model::FiberWorld;
using Timers = FiberWorld::Timers;
using Order = std::memory_order;

// A socket, and what epoll knows of it.
class Socket {
 public:
  // The peer.
  void Send() { Change(kByte, EPOLLIN); }
  void Finish() { Change(kEnd, EPOLLIN | EPOLLRDHUP); }

  // read(2) of `size` bytes.
  ssize_t Read(std::uint32_t size) {
    MODEL_CHECK(is_open_.Read(), "a call on a number that is closed (FD3)");
    std::uint32_t found = state_.load(Order::relaxed);
    std::uint32_t bytes = 0;
    do {
      bytes = std::min(found / kByte, size);
      // The kernel does this under a lock. So a call that finds no bytes writes, too: it sees the newest value.
    } while (!state_.compare_exchange_strong(found, found - bytes * kByte, Order::seq_cst));
    if (bytes == 0 && (found & kEnd) == 0) {
      errno = EAGAIN;
      return -1;
    }
    return bytes;
  }
  // poll(2)
  bool IsReadable() {
    MODEL_CHECK(is_open_.Read(), "a call on a number that is closed (FD3)");
    return state_.fetch_or(0, Order::seq_cst) != 0;
  }
  void Close() {
    MODEL_CHECK(is_open_.Read(), "a number is closed twice (FD3)");
    is_open_.Write(false);
  }
  bool is_open() const { return is_open_.Read(); }

  // epoll_ctl(2). It reports at once what is there already.
  void Register(EventHandler* handler) {
    MODEL_CHECK(is_open_.Read(), "a number that is closed is registered (FD3)");
    handler_.store(handler, Order::seq_cst);
    const std::uint32_t found = state_.fetch_or(0, Order::seq_cst);
    if (found != 0) Happened(EPOLLIN | ((found & kEnd) != 0 ? std::uint32_t{EPOLLRDHUP} : 0U));
  }
  // The worker that polls, for ever.
  void Poll() {
    for (;;) {
      polled_.Park();
      const std::uint32_t events = events_.exchange(0, Order::acq_rel);
      synchronization::WaitList claimed;
      handler_.load(Order::seq_cst)->OnEvents(events, &claimed);
      synchronization::WakeAll(&claimed);
    }
  }

 private:
  static constexpr std::uint32_t kEnd = 1;
  static constexpr std::uint32_t kByte = 2;

  void Change(std::uint32_t what, std::uint32_t events) {
    state_.fetch_add(what, Order::seq_cst);
    if (handler_.load(Order::seq_cst) != nullptr) Happened(events);
  }
  void Happened(std::uint32_t events) {
    events_.fetch_or(events, Order::acq_rel);
    polled_.Unpark();
  }

  base::Atomic<std::uint32_t> state_{0};
  base::Atomic<EventHandler*> handler_{nullptr};
  base::Atomic<std::uint32_t> events_{0};
  model::Parker polled_;
  model::Data<bool> is_open_{true};
};

// Numbers are places in here.
constexpr int kSockets = 2;
Socket* sockets[kSockets];
// What fd_slot_pool.cc has, for one execution: it makes a slot if none is free.
struct ModelPool {
  base::SpinLock lock;
  FdSlot* free = nullptr;
};
ModelPool* pool;

ssize_t ReadCall(int fd, std::uint32_t size) { return sockets[fd]->Read(size); }

}  // namespace

// What io/reactor/fd_slot.cc asks the kernel and the reactor for.
FdSlot* FdSlot::TakeFree() {
  if (pool == nullptr) pool = new ModelPool;
  {
    base::SpinLockGuard guard(pool->lock);
    if (FdSlot* const slot = pool->free) {
      pool->free = slot->next_free_;
      return slot;
    }
  }
  return new FdSlot;
}
void FdSlot::GiveBack() noexcept {
  base::SpinLockGuard guard(pool->lock);
  next_free_ = std::exchange(pool->free, this);
}
void ModelClose(int fd) { sockets[fd]->Close(); }
bool IsReadableNow(int fd) noexcept { return sockets[fd]->IsReadable(); }
void ForgetFd(int) {}
std::error_code Registration::Set(int fd, std::uint32_t, EventHandler* handler) {
  sockets[fd]->Register(handler);
  return {};
}
bool Registration::Remove(int) noexcept { return true; }
bool Registration::is_served() const noexcept { return true; }

namespace {

constexpr std::chrono::hours kSoon{1};  // Time is the model's.

class World {
 public:
  explicit World(model::Scenario& scenario) : scenario_(scenario), fibers_(scenario) {
    pool = nullptr;
    for (Socket*& socket : sockets) socket = scenario.New<Socket>("socket");
  }

  // The worker that polls for a number.
  void Poller(int fd) {
    fibers_.Thread(
        "poller", [fd] { sockets[fd]->Poll(); }, FiberWorld::End::kMayWaitForEver);
  }
  // The first number's slot, and its poller.
  FdSlot* Take() {
    Poller(0);
    FdSlot* const slot = FdSlot::Take(0);
    scenario_.Name(slot, sizeof(*slot), "slot");
    return slot;
  }
  void Fiber(const char* name, std::function<void()> body, Timers timers = Timers::kNo) {
    fibers_.Fiber(name, timers, std::move(body));
  }
  void Thread(const char* name, std::function<void()> body) { fibers_.Thread(name, std::move(body)); }
  void Peer(std::function<void()> body) { Thread("peer", std::move(body)); }
  void PeerThatSendsTwice() {
    Peer([] {
      sockets[0]->Send();
      sockets[0]->Send();
    });
  }
  void AtEnd(std::function<void()> check) { scenario_.AtEnd(std::move(check)); }
  template <class T, class... Args>
  T* New(const char* name, Args&&... args) {
    return scenario_.New<T>(name, std::forward<Args>(args)...);
  }

 private:
  model::Scenario& scenario_;
  FiberWorld fibers_;
};

void Explore(const model::Options& options, void (*build)(World&)) {
  const model::Result result = model::Explore(options, [&](model::Scenario& scenario) {
    World world(scenario);
    build(world);
  });
  EXPECT_TRUE(result.passed) << result.report;
}

IoResult Read(FdSlot* slot, std::uint32_t size, Deadline deadline = Deadline::None()) {
  if (!slot->BeginUse()) return {0, ErrnoCode(ECANCELED)};
  const auto call = [](void* most, int fd) { return ReadCall(fd, *static_cast<std::uint32_t*>(most)); };
  const IoResult got = slot->Retry(FdSlot::kRead, size, call, &size, deadline);
  slot->EndUse();
  return got;
}

void ReadBytes(FdSlot* slot, std::uint32_t size, std::size_t count) {
  while (count != 0) {
    const IoResult got = Read(slot, size);
    MODEL_CHECK(got.ok() && got.bytes != 0 && got.bytes <= count, "a read failed");
    count -= got.bytes;
  }
}

TEST(FdSlotModel, NoByteIsMissed) {
  Explore({.name = "fd_slot: reads of what there is", .preemptions = 3, .weak_choices = 2}, [](World& w) {
    FdSlot* const slot = w.Take();
    w.Fiber("reader", [=] { ReadBytes(slot, 16, 2); });
    w.PeerThatSendsTwice();
  });
  Explore({.name = "fd_slot: reads that fill their buffer", .preemptions = 3, .weak_choices = 2}, [](World& w) {
    FdSlot* const slot = w.Take();
    w.Fiber("reader", [=] { ReadBytes(slot, 1, 2); });
    w.PeerThatSendsTwice();
  });
}

TEST(FdSlotModel, TheEndIsNotMissed) {
  Explore({.name = "fd_slot: the end", .preemptions = 3, .weak_choices = 2}, [](World& w) {
    FdSlot* const slot = w.Take();
    w.Fiber("reader", [=] {
      ReadBytes(slot, 16, 1);
      const IoResult end = Read(slot, 16);
      MODEL_CHECK(end.ok() && end.bytes == 0, "the end is an error, or more bytes");
    });
    w.Peer([] {
      sockets[0]->Send();
      sockets[0]->Finish();
    });
  });
}

TEST(FdSlotModel, AByteAgainstATimeOut) {
  Explore({.name = "fd_slot: a byte, a time-out", .preemptions = 2, .weak_choices = 1}, [](World& w) {
    FdSlot* const slot = w.Take();
    w.Fiber(
        "reader",
        [=] {
          const IoResult got = Read(slot, 16, kSoon);
          MODEL_CHECK(got.ok() || got.error == std::errc::timed_out, "neither");
          if (!got.ok()) ReadBytes(slot, 16, 1);
        },
        Timers::kYes);
    w.Peer([] { sockets[0]->Send(); });
  });
}

TEST(FdSlotModel, TwoReadersShareTheBytes) {
  Explore({.name = "fd_slot: two readers", .preemptions = 2, .weak_choices = 1}, [](World& w) {
    FdSlot* const slot = w.Take();
    w.Fiber("reader", [=] { ReadBytes(slot, 1, 1); });
    w.Fiber("other reader", [=] { ReadBytes(slot, 1, 1); });
    w.PeerThatSendsTwice();
  });
}

// FD3, FD4
TEST(FdSlotModel, ACloseEndsAReader) {
  Explore({.name = "fd_slot: close", .preemptions = 3, .weak_choices = 2}, [](World& w) {
    FdSlot* const slot = w.Take();
    w.Fiber("reader", [=] {
      const IoResult got = Read(slot, 16);
      MODEL_CHECK(got.error == std::errc::operation_canceled, "nothing came");
    });
    w.Thread("closes", [=] { MODEL_CHECK(slot->Close(), "the only one"); });
    w.AtEnd([] { MODEL_CHECK(!sockets[0]->is_open(), "the number leaks"); });
  });
  Explore({.name = "fd_slot: two close", .preemptions = 3, .weak_choices = 1}, [](World& w) {
    FdSlot* const slot = w.Take();
    auto* const closed = w.New<model::Data<int>>("closed", 0);
    w.Fiber("reader", [=] {
      const IoResult got = Read(slot, 16);
      MODEL_CHECK(got.ok() || got.error == std::errc::operation_canceled, "neither");
      if (slot->Close()) closed->Write(closed->Read() + 1);
    });
    w.Thread("closes", [=] {
      if (slot->Close()) closed->Write(closed->Read() + 1);
    });
    w.Peer([] { sockets[0]->Send(); });
    w.AtEnd([=] {
      MODEL_CHECK(closed->Read() == 1, "two have closed it, or none");
      MODEL_CHECK(!sockets[0]->is_open(), "the number leaks");
    });
  });
}

// FD2: the pool has one slot here, so the second number gets it while an event of the first may be on its way.
TEST(FdSlotModel, AnEventOfAFormerUseDoesNoHarm) {
  Explore({.name = "fd_slot: another number in the slot", .preemptions = 4, .weak_choices = 1}, [](World& w) {
    w.Poller(1);
    for (Socket* socket : sockets) socket->Send();
    FdSlot* const slot = w.Take();
    w.Fiber("reader", [=] {
      MODEL_CHECK(slot->BeginUse(), "it is open");
      MODEL_CHECK(!slot->AwaitRegistered(FdSlot::kRead), "it can be registered");
      slot->Drop();
      slot->EndUse();
      FdSlot* const next = FdSlot::Take(1);
      MODEL_CHECK(next == slot, "the slot was not given back");
      ReadBytes(next, 16, 1);
    });
  });
  Explore({.name = "fd_slot: another number, a late event", .preemptions = 2, .weak_choices = 1}, [](World& w) {
    w.Poller(1);
    FdSlot* const slot = w.Take();
    w.Fiber("reader", [=] {
      ReadBytes(slot, 1, 1);
      slot->Drop();
      ReadBytes(FdSlot::Take(1), 16, 1);
    });
    w.PeerThatSendsTwice();
    w.Thread("peer of the other", [] { sockets[1]->Send(); });
  });
}

// FD3
TEST(FdSlotModel, ADroppedSlotServesAnotherNumberWhenItsUsesHaveEnded) {
  Explore({.name = "fd_slot: dropped in use", .preemptions = 3, .weak_choices = 2}, [](World& w) {
    w.Poller(1);
    FdSlot* const slot = w.Take();
    MODEL_CHECK(slot->BeginUse(), "it is open");
    w.Fiber("reader", [=] {
      MODEL_CHECK(slot->fd() == 0, "the number has changed");
      static_cast<void>(ReadCall(slot->fd(), 16));
      slot->EndUse();
    });
    w.Thread("drops", [=] {
      slot->Drop();
      FdSlot* const next = FdSlot::Take(1);
      MODEL_CHECK(next->BeginUse() && next->fd() == 1, "it was closed");
      next->EndUse();
    });
    w.AtEnd([] { MODEL_CHECK(!sockets[0]->is_open() && sockets[1]->is_open(), "the wrong ones are open"); });
  });
}

// What a watch guards. Both stay: a Disarm() that comes late looks at the watch.
class Guarded : public ReadableWatch {
 public:
  explicit Guarded(FdSlot* slot) : ReadableWatch(&OnReadable), slot_(slot) {}

  // A fiber. If it is not armed, the fiber has what it guards.
  void ArmOrEnd() {
    armed_.Write(armed_.Read() + 1);
    switch (Arm(slot_)) {
      case Armed::kArmed:
        return;
      case Armed::kReadable:
        return End(kReadable);
      case Armed::kForbidden:
        return End(kForbidden);
    }
  }
  void DisarmAndEnd() {
    if (Disarm()) End(kDisarmed);
  }

  enum How { kNot, kReadable, kForbidden, kCalled, kDisarmed };
  How how() const { return how_.Read(); }

 private:
  static void OnReadable(ReadableWatch* self) noexcept { static_cast<Guarded*>(self)->End(kCalled); }

  void End(How how) {
    MODEL_CHECK(armed_.Read() == 1, "what was done before it was armed is not seen");
    MODEL_CHECK(how_.Read() == kNot, "two have ended the watch (RDW1)");
    how_.Write(how);
  }

  FdSlot* const slot_;
  model::Data<int> armed_{0};
  model::Data<How> how_{kNot};
};

TEST(ReadableWatchModel, NoByteIsMissed) {
  Explore({.name = "readable_watch: a byte", .preemptions = 4, .weak_choices = 2}, [](World& w) {
    auto* const watch = w.New<Guarded>("watch", w.Take());
    w.Fiber("arms", [=] { watch->ArmOrEnd(); });
    w.Peer([] { sockets[0]->Send(); });
    w.AtEnd([=] { MODEL_CHECK(watch->how() != Guarded::kNot, "a byte was missed (RDW2)"); });
  });
  // What a reader has left.
  Explore({.name = "readable_watch: after a read", .preemptions = 3, .weak_choices = 2}, [](World& w) {
    FdSlot* const slot = w.Take();
    auto* const watch = w.New<Guarded>("watch", slot);
    w.Fiber("arms", [=] {
      ReadBytes(slot, 16, 1);
      watch->ArmOrEnd();
    });
    w.Peer([] {
      sockets[0]->Send();
      sockets[0]->Finish();
    });
    w.AtEnd([=] { MODEL_CHECK(watch->how() != Guarded::kNot, "the end was missed (RDW2)"); });
  });
}

// One that is armed each time what has come was read, as a server's connection is.
class Repeated : public ReadableWatch {
 public:
  explicit Repeated(FdSlot* slot) : ReadableWatch(&OnReadable), slot_(slot) {}

  void Read(std::size_t bytes) {
    while (bytes != 0) {
      uses_.Write(uses_.Read() + 1);
      const Armed armed = Arm(slot_);
      MODEL_CHECK(armed != Armed::kForbidden, "nobody has forbidden it");
      if (armed == Armed::kArmed) called_.Park();
      const IoResult got = io::Read(slot_, 16);
      MODEL_CHECK(got.ok() && got.bytes <= bytes, "a read failed");
      bytes -= got.bytes;
    }
  }

 private:
  static void OnReadable(ReadableWatch* watch) noexcept {
    auto* const self = static_cast<Repeated*>(watch);
    self->uses_.Write(self->uses_.Read() + 1);  // What it guards is the caller's.
    MODEL_CHECK(self->called_.Unpark(), "called twice for one Arm() (RDW1)");
  }

  FdSlot* const slot_;
  model::Data<int> uses_{0};
  model::Parker called_;
};

TEST(ReadableWatchModel, ItIsArmedAgain) {
  Explore({.name = "readable_watch: again", .preemptions = 3, .weak_choices = 2}, [](World& w) {
    auto* const watch = w.New<Repeated>("watch", w.Take());
    w.Fiber("reads", [=] { watch->Read(2); });
    w.PeerThatSendsTwice();
  });
}

TEST(ReadableWatchModel, AByteAgainstDisarm) {
  Explore({.name = "readable_watch: a byte, disarm", .preemptions = 3, .weak_choices = 2}, [](World& w) {
    auto* const watch = w.New<Guarded>("watch", w.Take());
    w.Fiber("arms", [=] { watch->ArmOrEnd(); });
    w.Peer([] { sockets[0]->Send(); });
    w.Thread("disarms", [=] { watch->DisarmAndEnd(); });
    w.AtEnd([=] { MODEL_CHECK(watch->how() != Guarded::kNot, "nobody has ended the watch"); });
  });
}

TEST(ReadableWatchModel, TwoDisarm) {
  Explore({.name = "readable_watch: disarm twice", .preemptions = 2, .weak_choices = 2}, [](World& w) {
    FdSlot* const slot = w.Take();
    auto* const watch = w.New<Guarded>("watch", slot);
    w.Fiber("arms", [=] { watch->ArmOrEnd(); });
    w.Thread("disarms", [=] { watch->DisarmAndEnd(); });
    w.Thread("disarms too", [=] { watch->DisarmAndEnd(); });
    w.Thread("closes", [=] { MODEL_CHECK(slot->Close(), "the only one"); });
    w.AtEnd([=] {
      MODEL_CHECK(watch->how() != Guarded::kNot, "nobody has ended the watch");
      MODEL_CHECK(!sockets[0]->is_open(), "the number leaks");
    });
  });
}

// RDW4: the number is closed when the watch is over.
TEST(ReadableWatchModel, ACloseEndsTheWatch) {
  Explore({.name = "readable_watch: close", .preemptions = 4, .weak_choices = 2}, [](World& w) {
    FdSlot* const slot = w.Take();
    auto* const watch = w.New<Guarded>("watch", slot);
    w.Fiber("arms", [=] { watch->ArmOrEnd(); });
    w.Thread("drops", [=] { slot->Drop(); });
    w.AtEnd([=] {
      MODEL_CHECK(watch->how() != Guarded::kNot, "the close did not end the watch (FD4)");
      MODEL_CHECK(!sockets[0]->is_open(), "the number leaks");
    });
  });
  Explore({.name = "readable_watch: close, disarm", .preemptions = 3, .weak_choices = 1}, [](World& w) {
    FdSlot* const slot = w.Take();
    auto* const watch = w.New<Guarded>("watch", slot);
    w.Fiber("arms", [=] { watch->ArmOrEnd(); });
    w.Thread("closes", [=] { MODEL_CHECK(slot->Close(), "the only one"); });
    w.Thread("disarms", [=] { watch->DisarmAndEnd(); });
    w.AtEnd([=] {
      MODEL_CHECK(watch->how() != Guarded::kNot, "neither has ended the watch");
      MODEL_CHECK(!sockets[0]->is_open(), "the number leaks");
    });
  });
}

// RDW5
TEST(ReadableWatchModel, AForbiddenWatchIsNotArmed) {
  Explore({.name = "readable_watch: forbid", .preemptions = model::kUnbounded, .weak_choices = 4}, [](World& w) {
    auto* const watch = w.New<Guarded>("watch", w.Take());
    w.Fiber("arms", [=] { watch->ArmOrEnd(); });
    w.Thread("forbids", [=] {
      watch->Forbid();
      watch->DisarmAndEnd();
    });
    w.AtEnd([=] { MODEL_CHECK(watch->how() != Guarded::kNot, "it was armed after Forbid()"); });
  });
  Explore({.name = "readable_watch: a byte, forbid", .preemptions = 3, .weak_choices = 1}, [](World& w) {
    auto* const watch = w.New<Guarded>("watch", w.Take());
    w.Fiber("arms", [=] { watch->ArmOrEnd(); });
    w.Thread("forbids", [=] {
      watch->Forbid();
      watch->DisarmAndEnd();
    });
    w.Peer([] { sockets[0]->Send(); });
    w.AtEnd([=] { MODEL_CHECK(watch->how() != Guarded::kNot, "a byte was missed (RDW2)"); });
  });
}

// FD8. Told under a lock, and not after Unwatch().
class Hangup final : public HangupWatch {
 public:
  void MayHaveHungUp(int fd, bool) noexcept override {
    MODEL_CHECK(sockets[fd]->is_open(), "told of a number that is closed");
    told_.Write(told_.Read() + 1);
  }
  int told() const { return told_.Read(); }

 private:
  model::Data<int> told_{0};
};

TEST(FdSlotModel, AHangupIsNotMissed) {
  Explore({.name = "fd_slot: a hang-up", .preemptions = 4, .weak_choices = 2}, [](World& w) {
    FdSlot* const slot = w.Take();
    auto* const watch = w.New<Hangup>("watch");
    w.Fiber("watches", [=] {
      MODEL_CHECK(slot->BeginUse(), "it is open");
      MODEL_CHECK(!slot->Watch(watch), "it can be watched");
    });
    w.Peer([] { sockets[0]->Finish(); });
    w.AtEnd([=] { MODEL_CHECK(watch->told() != 0, "the hang-up was missed"); });
  });
  Explore({.name = "fd_slot: a hang-up, unwatch", .preemptions = 3, .weak_choices = 1}, [](World& w) {
    FdSlot* const slot = w.Take();
    w.Fiber("watches", [=] {
      if (!slot->BeginUse()) return;
      auto* const watch = new Hangup;
      MODEL_CHECK(!slot->Watch(watch), "it can be watched");
      static_cast<void>(slot->closed());  // Others may run here.
      slot->Unwatch();
      delete watch;
      slot->EndUse();
    });
    w.Peer([] { sockets[0]->Finish(); });
    w.Thread("closes", [=] { MODEL_CHECK(slot->Close(), "the only one"); });
  });
}

}  // namespace
}  // namespace weft::io
