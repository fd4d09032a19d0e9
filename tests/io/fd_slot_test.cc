// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/io/reactor/fd_slot.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <system_error>
#include <vector>

#include "weft/sync/wait/wait_queue.h"
#include "weft/tests/io/io_fixture.h"

namespace weft::io {
namespace {

using namespace std::chrono_literals;

bool IsOpen(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

// A slot with one end of a pair of sockets, in use; the other end is the test's.
class OpenSlot {
 public:
  OpenSlot() {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
    slot_ = FdSlot::Take(ends[0]);
    peer_ = ends[1];
    if (!slot_->BeginUse()) std::abort();
  }
  ~OpenSlot() {
    slot_->EndUse();
    slot_->Drop();
    ::close(peer_);
  }
  OpenSlot(const OpenSlot&) = delete;
  OpenSlot& operator=(const OpenSlot&) = delete;

  FdSlot* operator->() { return slot_; }
  bool ready(FdSlot::Direction direction) { return slot_->TicketOf(direction).ready(); }
  // As the reactor; nobody waits.
  void Tell(std::uint32_t events) {
    synchronization::WaitList claimed;
    slot_->OnEvents(events, &claimed);
    synchronization::WakeAll(&claimed);
  }
  // As after a system call that said EAGAIN.
  void Drain() {
    for (const auto direction : {FdSlot::kRead, FdSlot::kWrite})
      slot_->ClearReadiness(direction, slot_->TicketOf(direction));
  }
  void WriteToIt() {
    if (::write(peer_, "x", 1) != 1) std::abort();
  }
  void ReadAll() {
    char bytes[64];
    while (::read(slot_->fd(), bytes, sizeof(bytes)) > 0) {
    }
  }

 private:
  FdSlot* slot_;
  int peer_;
};

// --- Readiness ---

TEST(FdSlotReadiness, ANewSlotIsWorthATry) {
  OpenSlot slot;
  for (const auto direction : {FdSlot::kRead, FdSlot::kWrite}) {
    EXPECT_TRUE(slot.ready(direction));
    EXPECT_FALSE(slot->IsRegistered(direction));
    EXPECT_TRUE(slot->WorthATry(direction, slot->TicketOf(direction)));
  }
}

TEST(FdSlotReadiness, WhileNobodyTellsOfEventsATryIsWorthItThoughItIsDrained) {
  OpenSlot slot;
  slot.Drain();
  EXPECT_FALSE(slot.ready(FdSlot::kRead));
  EXPECT_TRUE(slot->WorthATry(FdSlot::kRead, slot->TicketOf(FdSlot::kRead)));
}

// FD1.
TEST(FdSlotReadiness, AnEventBetweenTheSystemCallAndItsEagainStands) {
  OpenSlot slot;
  const FdSlot::Ticket ticket = slot->TicketOf(FdSlot::kRead);
  slot.Tell(EPOLLIN);
  slot->ClearReadiness(FdSlot::kRead, ticket);
  EXPECT_TRUE(slot.ready(FdSlot::kRead));
  slot->ClearReadiness(FdSlot::kRead, slot->TicketOf(FdSlot::kRead));
  EXPECT_FALSE(slot.ready(FdSlot::kRead));
}

TEST(FdSlotReadiness, AnEventIsOfItsDirections) {
  const struct {
    std::uint32_t events;
    bool read;
    bool write;
  } cases[] = {{EPOLLIN, true, false},          {EPOLLOUT, false, true}, {EPOLLRDHUP, true, false},
               {EPOLLPRI, true, false},         {EPOLLHUP, true, true},  {EPOLLERR, true, true},
               {EPOLLIN | EPOLLOUT, true, true}};
  for (const auto& one : cases) {
    OpenSlot slot;
    slot.Drain();
    slot.Tell(one.events);
    EXPECT_EQ(slot.ready(FdSlot::kRead), one.read) << one.events;
    EXPECT_EQ(slot.ready(FdSlot::kWrite), one.write) << one.events;
  }
}

// kTLS: a read ends at a record of another kind, and no event tells of what lies behind it.
TEST(FdSlotReadiness, AShortReadDrainsNothingOnceThatIsExpected) {
  OpenSlot slot;
  slot.Tell(EPOLLIN);
  EXPECT_TRUE(slot->TicketOf(FdSlot::kRead).is_plain());
  slot.Drain();
  const FdSlot::Ticket before = slot->TicketOf(FdSlot::kRead);
  slot->ExpectShortReads();
  EXPECT_TRUE(slot.ready(FdSlot::kRead)) << "a short read before may have left something";
  slot->ClearReadiness(FdSlot::kRead, before);
  const FdSlot::Ticket ticket = slot->TicketOf(FdSlot::kRead);
  EXPECT_FALSE(ticket.is_plain());
  slot->ClearReadinessAfterShortRead(ticket);
  EXPECT_TRUE(slot.ready(FdSlot::kRead));
  slot.Drain();
  EXPECT_FALSE(slot.ready(FdSlot::kRead));
}

// --- Closing ---

// FD3.
TEST(FdSlotClosing, TheDescriptorStaysOpenUntilItsLastUseEnds) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
  FdSlot* slot = FdSlot::Take(ends[0]);
  ASSERT_TRUE(slot->BeginUse());
  ASSERT_TRUE(slot->BeginUse());
  EXPECT_FALSE(slot->closed());
  EXPECT_TRUE(slot->Close());
  EXPECT_TRUE(slot->closed());
  EXPECT_TRUE(IsOpen(ends[0]));
  EXPECT_FALSE(slot->BeginUse()) << "no use begins any more";
  EXPECT_FALSE(slot->Close()) << "it was closed already";
  slot->EndUse();
  EXPECT_TRUE(IsOpen(ends[0]));
  slot->EndUse();
  EXPECT_FALSE(IsOpen(ends[0]));
  slot->Drop();
  ::close(ends[1]);
}

TEST(FdSlotClosing, WithoutAUseItIsClosedAtOnce) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
  FdSlot* slot = FdSlot::Take(ends[0]);
  slot->Drop();
  EXPECT_FALSE(IsOpen(ends[0]));
  ::close(ends[1]);
}

TEST(FdSlotClosing, AClosedSlotIsReadySoThatATryFindsOut) {
  OpenSlot slot;
  slot.Drain();
  EXPECT_TRUE(slot->Close());
  for (const auto direction : {FdSlot::kRead, FdSlot::kWrite}) {
    const FdSlot::Ticket ticket = slot->TicketOf(direction);
    EXPECT_TRUE(ticket.ready());
    EXPECT_TRUE(ticket.closed());
    slot->ClearReadiness(direction, ticket);
    EXPECT_TRUE(slot.ready(direction)) << "for good";
  }
}

// FD2. An event about its last use may be told when a slot is another's already.
TEST(FdSlotClosing, ASlotThatIsUsedAgainIsAsNew) {
  std::set<FdSlot*> slots;
  for (int i = 0; i < 2; ++i) {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    FdSlot* slot = FdSlot::Take(ends[0]);
    slots.insert(slot);
    EXPECT_EQ(slot->fd(), ends[0]);
    EXPECT_FALSE(slot->closed());
    ASSERT_TRUE(slot->BeginUse());
    EXPECT_TRUE(slot->TicketOf(FdSlot::kRead).ready());
    EXPECT_FALSE(slot->TicketOf(FdSlot::kRead).closed());
    slot->EndUse();
    slot->Drop();
    synchronization::WaitList claimed;
    slot->OnEvents(EPOLLIN, &claimed);
    synchronization::WakeAll(&claimed);
    ::close(ends[1]);
  }
  EXPECT_EQ(slots.size(), 1u) << "the last one given back is taken first";
}

// --- Waiting ---

class FdSlotTest : public IoTest {};
WEFT_INSTANTIATE_IO_SHAPES(FdSlotTest);

// Once in a fiber, which is told by the reactor, and once in a thread, which asks poll(2).
TEST_P(FdSlotTest, AWaitEndsWhenTheDescriptorIsReady) {
  InFiberAndInThread([] {
    OpenSlot slot;
    slot.Drain();
    slot.WriteToIt();
    EXPECT_EQ(slot->Wait(FdSlot::kRead, Soon()), std::error_code());
    EXPECT_TRUE(slot.ready(FdSlot::kRead));
    EXPECT_EQ(slot->Wait(FdSlot::kWrite, Soon()), std::error_code());
    EXPECT_TRUE(slot.ready(FdSlot::kWrite));
  });
}

TEST_P(FdSlotTest, AWaitEndsAtItsDeadline) {
  InFiberAndInThread([] {
    OpenSlot slot;
    slot.Drain();
    EXPECT_EQ(slot->Wait(FdSlot::kRead, 1ms), std::errc::timed_out);
    EXPECT_FALSE(slot.ready(FdSlot::kRead));
  });
}

// A regular file takes the number, which epoll refuses. The registration is lost then, so the other direction must not
// rely on it.
TEST_P(FdSlotTest, EachWaitForANumberThatCannotBeWaitedForAnyMoreSaysSo) {
  InFiber([] {
    OpenSlot slot;
    slot.Drain();
    EXPECT_EQ(slot->Wait(FdSlot::kRead, 1ms), std::errc::timed_out);
    const int file = ::open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    ASSERT_GE(file, 0);
    ASSERT_EQ(::dup2(file, slot->fd()), slot->fd());
    ::close(file);
    EXPECT_EQ(slot->Wait(FdSlot::kWrite, Soon()), std::errc::operation_not_permitted);
    EXPECT_EQ(slot->Wait(FdSlot::kRead, Soon()), std::errc::operation_not_permitted);
  });
}

TEST_P(FdSlotTest, OnlyFibersNeedARegistrationAndTheSlotHasOnePerDirection) {
  OpenSlot slot;
  slot.Drain();
  EXPECT_EQ(slot->Wait(FdSlot::kRead, 1ms), std::errc::timed_out);
  EXPECT_FALSE(slot->IsRegistered(FdSlot::kRead));
  InFiber([&] {
    EXPECT_EQ(slot->Wait(FdSlot::kRead, 1ms), std::errc::timed_out);
    EXPECT_TRUE(slot->IsRegistered(FdSlot::kRead));
    EXPECT_FALSE(slot->IsRegistered(FdSlot::kWrite));
    // Events are told from now on.
    EXPECT_FALSE(slot->WorthATry(FdSlot::kRead, slot->TicketOf(FdSlot::kRead)));
    slot.WriteToIt();
    EXPECT_EQ(slot->Wait(FdSlot::kRead, Soon()), std::error_code());
    slot.ReadAll();
  });
}

// FD4.
TEST_P(FdSlotTest, CloseEndsAllWaits) {
  for (const bool in_fiber : {true, false}) {
    OpenSlot slot;
    slot.Drain();
    std::vector<Actor> waiters;
    std::atomic<int> began{0};
    for (int i = 0; i < 3; ++i) {
      waiters.emplace_back(in_fiber, [&] {
        ++began;
        EXPECT_EQ(slot->Wait(FdSlot::kRead, {}), std::error_code());
        EXPECT_TRUE(slot->TicketOf(FdSlot::kRead).closed());
      });
    }
    // They wait, or are about to: either way Close() ends it.
    ASSERT_TRUE(Reaches([&] { return began == 3; }));
    EXPECT_TRUE(slot->Close());
    for (Actor& waiter : waiters) waiter.Join();
  }
}

// A thread polled what was closed already, and whose Close() had found nobody to tell.
TEST_P(FdSlotTest, NoWaitBeginsAfterTheClose) {
  InFiberAndInThread([] {
    OpenSlot slot;
    slot.Drain();
    EXPECT_TRUE(slot->Close());
    EXPECT_EQ(slot->Wait(FdSlot::kRead, 1ms), std::error_code()) << "a try says that it is closed";
  });
}

// FD5.
TEST_P(FdSlotTest, AFiberWhoseCallsAlwaysSucceedLetsOthersRun) {
  InFiber([] {
    OpenSlot slot;
    std::atomic<bool> other_ran{false};
    Fiber other([&] { other_ran = true; });
    while (!other_ran) slot->Succeeded(FdSlot::kRead);
    other.Join();
  });
}

}  // namespace
}  // namespace weft::io
