// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/observe/dump_fibers.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <limits>
#include <mutex>
#include <optional>
#include <regex>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "weft/base/report/build_mode.h"
#include "weft/base/thread/cpu.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/fiber_scope.h"
#include "weft/fiber/this_fiber.h"
#include "weft/io/fiber_blocking.h"
#include "weft/io/tcp_server.h"
#include "weft/io/tcp_stream.h"
#include "weft/io/wait_fd.h"
#include "weft/net/resolver.h"
#include "weft/observe/dump/fiber_filter.h"
#include "weft/observe/dump/fiber_report.h"
#include "weft/observe/dump/stack_table.h"
#include "weft/observe/dump/stack_unwinder.h"
#include "weft/sync/fiber_barrier.h"
#include "weft/sync/fiber_channel.h"
#include "weft/sync/fiber_condition_variable.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_latch.h"
#include "weft/sync/fiber_mutex.h"
#include "weft/sync/fiber_semaphore.h"
#include "weft/sync/fiber_shared_mutex.h"
#include "weft/sync/fiber_timed_mutex.h"
#include "weft/sync/select.h"
#include "weft/sync/wait_group.h"
#include "weft/tests/fiber/runtime_fixture.h"
#include "weft/tests/io/io_fixture.h"
#include "weft/tests/observe/dump_until.h"
#include "weft/timer/callback/timer_census.h"
#include "weft/timer/fiber_timer.h"
#include "weft/timer/queue/timer_shard.h"
#include "weft/timer/queue/timer_slab.h"

#include "testing/patience.h"

namespace weft::observe {
namespace {

using namespace std::chrono_literals;

class DumpFibersTest : public ::testing::TestWithParam<fiber::Shape>, protected fiber::CallsInFibers {
 protected:
  fiber::RuntimeOf runtime_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Shapes, DumpFibersTest, ::testing::Values(fiber::Shape{1, 1}, fiber::Shape{4, 1}),
                         &fiber::NameOf);

// Has answered a request, and waits for the next one.
void Ask(io::TcpStream* client, const io::TcpServer& server) {
  ASSERT_FALSE(client->Connect(server.local_address(), io::Soon()));
  char byte = 'x';
  ASSERT_TRUE(client->WriteAll(&byte, 1, io::Soon()).ok());
  ASSERT_EQ(client->ReadAll(&byte, 1, io::Soon()).bytes, 1u);
}

template <class F>
Fiber Named(std::string name, F f) {
  return Fiber({.name = std::move(name)}, std::move(f));
}

std::string AddressOf(const void* object) {
  char text[24];
  std::snprintf(text, sizeof(text), "%p", object);
  return text;
}

// A fiber 'waiter' is in `wait`, says so, and leaves it after `end`.
void ExpectReason(const std::string& reason, const std::function<void()>& wait, const std::function<void()>& end) {
  SCOPED_TRACE(reason);
  Fiber waiter = Named("waiter", wait);
  const std::string dump = DumpUntil("name=waiter", ", parked: " + reason);
  EXPECT_TRUE(Has(dump, "fiber 'waiter' (id " + std::to_string(waiter.Id()) + "), parked: " + reason)) << dump;
  EXPECT_TRUE(Has(dump, " s, in group 0\n")) << dump;
  end();
  waiter.Join();
}

// Those of the program have the names that it gives them.
TEST_P(DumpFibersTest, FibersOfATcpServerHaveNames) {
  const auto serve = [](io::TcpStream& stream) {
    char byte;
    while (stream.ReadSome(&byte, 1).bytes == 1 && stream.WriteAll(&byte, 1).ok()) {
    }
  };
  const auto answer = [serve](io::TcpConnection& connection) {
    serve(connection.stream());
    return io::AfterRequest::kClose;
  };
  for (const std::string given : {"", "shop"}) {
    io::TcpServer::Options options;
    options.connection_fiber.name = given;
    io::TcpListener of_connections;
    io::TcpListener of_requests;
    ASSERT_FALSE(of_connections.Listen(io::OwnLoopback()));
    ASSERT_FALSE(of_requests.Listen(io::OwnLoopback()));
    io::RequestHandler handler(answer);
    handler.SetFiberName("rpc connection");
    io::TcpServer connections(std::move(of_connections), serve, options);
    io::TcpServer requests(std::move(of_requests), std::move(handler), options);
    ASSERT_TRUE(connections.Start());
    ASSERT_TRUE(requests.Start());
    io::TcpStream clients[2];
    Ask(&clients[0], connections);
    Ask(&clients[1], requests);
    const std::string dump = DumpText({.stacks = false, .most_listed = 100});
    EXPECT_TRUE(Has(dump, "'tcp accept' (id ")) << dump;
    EXPECT_TRUE(Has(dump, "'tcp sweep' (id ")) << dump;
    for (const std::string name : {"tcp connection", "rpc connection"}) {
      EXPECT_EQ(Has(dump, "'" + name + "' (id "), given.empty()) << dump;
    }
    EXPECT_EQ(Has(dump, "'shop' (id "), !given.empty()) << dump;
    for (io::TcpStream& client : clients) client.Close();
    connections.Stop();
    requests.Stop();
  }
}

TEST_P(DumpFibersTest, AParkedFiberSaysForWhichPrimitiveItWaits) {
  FiberLatch latch(1);
  ExpectReason(
      "latch " + AddressOf(&latch), [&] { latch.Wait(); }, [&] { latch.CountDown(); });
  FiberEvent event;
  ExpectReason(
      "event " + AddressOf(&event), [&] { event.Wait(); }, [&] { event.Set(); });
  FiberSemaphore semaphore(0);
  ExpectReason(
      "semaphore " + AddressOf(&semaphore), [&] { semaphore.Acquire(); }, [&] { semaphore.Release(); });
  FiberBarrier barrier(2);
  ExpectReason(
      "barrier " + AddressOf(&barrier), [&] { barrier.ArriveAndWait(); }, [&] { barrier.ArriveAndDrop(); });
  WaitGroup group;
  group.Add();
  ExpectReason(
      "wait_group " + AddressOf(&group), [&] { group.Wait(); }, [&] { group.Done(); });
  FiberChannel<int> channel(1);
  ExpectReason(
      "channel_get " + AddressOf(&channel), [&] { EXPECT_TRUE(channel.Get()); },
      [&] { EXPECT_EQ(channel.Put(1), ChannelResult::kOk); });
  EXPECT_EQ(channel.Put(1), ChannelResult::kOk);
  ExpectReason(
      "channel_put " + AddressOf(&channel), [&] { EXPECT_EQ(channel.Put(2), ChannelResult::kOk); },
      [&] { EXPECT_TRUE(channel.Get()); });
  EXPECT_TRUE(channel.Get());
  FiberEvent other;
  ExpectReason(
      "select 0x", [&] { Select(OnSet(other), OnGet(channel, [](ChannelItem<int>) { FAIL(); })); },
      [&] { other.Set(); });
  SUCCEED();
}

TEST_P(DumpFibersTest, AConditionVariablesWaiterWaitsForTheMutexOnceItIsNotified) {
  FiberMutex mutex;
  FiberConditionVariable notified;
  bool may_go = false;
  Fiber waiter = Named("waiter", [&] {
    std::unique_lock lock(mutex);
    notified.wait(lock, [&] { return may_go; });
  });
  static_cast<void>(DumpUntil("name=waiter", ", parked: condition_variable " + AddressOf(&notified)));
  {
    const std::scoped_lock lock(mutex);
    may_go = true;
    notified.notify_one();
    static_cast<void>(DumpUntil("name=waiter", ", parked: mutex " + AddressOf(&mutex)));
  }
  waiter.Join();
}

TEST_P(DumpFibersTest, AMutexNamesItsOwner) {
  FiberMutex mutex;
  FiberSharedMutex shared;
  FiberTimedMutex timed;
  FiberEvent may_unlock;
  Fiber owner = Named("owner", [&] {
    const std::scoped_lock lock(mutex, shared, timed);
    may_unlock.Wait();
  });
  static_cast<void>(DumpUntil("name=owner", ", parked: event"));
  const std::string owned = ", owned by fiber 'owner' (id " + std::to_string(owner.Id()) + "), for";
  Fiber first = Named("first", [&] { const std::scoped_lock lock(mutex); });
  static_cast<void>(DumpUntil("name=first", ", parked: mutex " + AddressOf(&mutex) + owned));
  Fiber second = Named("second", [&] { const std::scoped_lock lock(shared); });
  static_cast<void>(DumpUntil("name=second", ", parked: shared_mutex " + AddressOf(&shared) + owned));
  Fiber third = Named("third", [&] { EXPECT_TRUE(timed.try_lock_for(1h)); });
  static_cast<void>(DumpUntil("name=third", ", parked: mutex " + AddressOf(&timed) + ", for"));
  may_unlock.Set();
  for (Fiber* fiber : {&first, &second, &third, &owner}) fiber->Join();
}

// A thread owns it.
TEST_P(DumpFibersTest, AnOwnerThatIsNoFiberIsLeftOut) {
  FiberMutex mutex;
  FiberEvent locked;
  FiberEvent may_unlock;
  Fiber other = Named("other", [&] { may_unlock.Wait(); });
  static_cast<void>(DumpUntil("name=other", ", parked: event"));
  std::thread owner([&] {
    const std::scoped_lock lock(mutex);
    locked.Set();
    may_unlock.Wait();
  });
  locked.Wait();
  Fiber waiter = Named("waiter", [&] { const std::scoped_lock lock(mutex); });
  const std::string waiting = DumpUntil("name=waiter", ", parked: mutex " + AddressOf(&mutex));
  EXPECT_TRUE(Has(waiting, AddressOf(&mutex) + ", for ")) << waiting;
  may_unlock.Set();
  owner.join();
  waiter.Join();
  other.Join();
}

TEST(FiberReport, AnOwnersAddressInNoFibersStackIsNobodys) {
  const std::array<char, 64> memory{};
  FiberRecord waiter;
  waiter.id = 1;
  waiter.phase = scheduling_group::FiberPhase::kParked;
  waiter.is_parked = true;
  waiter.reason = scheduling_group::WaitReason(scheduling_group::WaitKind::kMutex, nullptr);
  waiter.owner_address = reinterpret_cast<std::uintptr_t>(memory.data());
  FiberRecord above;
  above.id = 2;
  above.entity = 1;
  above.stack_top = reinterpret_cast<std::uintptr_t>(memory.data() + memory.size());
  const DumpOptions options{.stacks = false};
  std::string error;
  const std::optional<FiberFilter> all = FiberFilter::Parse("", &error);
  StackUnwinder unwinder(/*wanted=*/false);
  const StackTable stacks(&unwinder, 1);
  FiberReport report(options, *all, &unwinder, stacks);
  report.Add(waiter);
  report.Add(above);
  std::ostringstream out;
  report.Write(out);
  EXPECT_TRUE(Has(out.str(), ", parked: mutex, for ")) << out.str();
}

TEST_P(DumpFibersTest, AJoinNamesTheFiberJoinedAndAScopeItself) {
  FiberEvent may_end;
  Fiber joined = Named("joined", [&] { may_end.Wait(); });
  Fiber joiner = Named("joiner", [&] { joined.Join(); });
  static_cast<void>(DumpUntil("name=joiner", " of fiber 'joined' (id " + std::to_string(joined.Id()) + "), for"));
  Fiber in_scope = Named("in_scope", [&] {
    FiberScope scope;
    ASSERT_TRUE(scope.Spawn([&] { may_end.Wait(); }));
    scope.Wait();
  });
  static_cast<void>(DumpUntil("name=in_scope", ", parked: scope 0x"));
  may_end.Set();
  joiner.Join();
  in_scope.Join();
}

TEST_P(DumpFibersTest, ASleepAndATimedWaitHaveADeadline) {
  FiberEvent may_end;
  Fiber sleeper = Named("sleeper", [&] { FiberSleepFor(1000h); });
  Fiber waiter = Named("waiter", [&] { EXPECT_TRUE(may_end.Wait(10h)); });
  const std::string sleeping = DumpUntil("name=sleeper", ", parked: sleep, for ");
  EXPECT_TRUE(Has(sleeping, ", deadline in 3.6e+06 s, in group")) << sleeping;
  const std::string waiting = DumpUntil("name=waiter", ", parked: event " + AddressOf(&may_end));
  EXPECT_TRUE(Has(waiting, ", deadline in 3.6e+04 s, in group")) << waiting;
  may_end.Set();
  waiter.Join();
  sleeper.Cancel();
  sleeper.Join();
}

TEST_P(DumpFibersTest, WaitsOfInputAndOutputNameTheDescriptor) {
  const int fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  Fiber reader = Named("reader", [&] { EXPECT_FALSE(io::WaitFd(fd, POLLIN).error); });
  static_cast<void>(DumpUntil("name=reader", ", parked: readable of descriptor " + std::to_string(fd)));
  const std::uint64_t full = std::numeric_limits<std::uint64_t>::max() - 1;
  ASSERT_EQ(::write(fd, &full, sizeof(full)), 8);
  reader.Join();
  Fiber writer = Named("writer", [&] { EXPECT_FALSE(io::WaitFd(fd, POLLOUT).error); });
  static_cast<void>(DumpUntil("name=writer", ", parked: writable of descriptor " + std::to_string(fd)));
  std::uint64_t value = 0;
  ASSERT_EQ(::read(fd, &value, sizeof(value)), 8);
  writer.Join();
  ::close(fd);
}

TEST_P(DumpFibersTest, BlockingCallsAndNameLookUpsSayThatTheyAre) {
  std::atomic<bool> may_return{false};
  const auto block = [&] {
    while (!may_return) std::this_thread::yield();
  };
  Fiber caller = Named("caller", [&] { FiberBlocking(block); });
  static_cast<void>(DumpUntil("name=caller", ", parked: blocking_pool 0x"));
  io::ResolverOptions options;
  options.look_up = [&](const std::string&, const std::string&, io::ResolveOptions) {
    block();
    return io::ResolveResult{};
  };
  io::Resolver resolver(options);
  Fiber asker = Named("asker", [&] { static_cast<void>(resolver.Resolve("somewhere", "1")); });
  static_cast<void>(DumpUntil("name=asker", ", parked: name_look_up 0x"));
  may_return = true;
  caller.Join();
  asker.Join();
}

TEST_P(DumpFibersTest, OneThatWasCancelledSaysSo) {
  FiberMutex mutex;
  mutex.lock();
  Fiber waiter = Named("waiter", [&] { const std::scoped_lock lock(mutex); });  // No cancellation point.
  EXPECT_FALSE(Has(DumpUntil("name=waiter", ", parked: mutex"), "cancelled"));
  waiter.Cancel();
  EXPECT_TRUE(Has(DumpText({.filter = "name=waiter", .stacks = false}), ", cancelled\n"));
  mutex.unlock();
  waiter.Join();
}

// --- Stacks ---

WEFT_NOINLINE void WaitInTheInnerFunction(FiberLatch* latch) {
  latch->Wait();
  asm volatile("");  // No tail call.
}

WEFT_NOINLINE void WaitInTheOuterFunction(FiberLatch* latch) {
  WaitInTheInnerFunction(latch);
  asm volatile("");
}

bool HasUnwinder() { return StackUnwinder().why_not().empty(); }

TEST_P(DumpFibersTest, AParkedFibersStackIsShownFromTheWaitToItsFunction) {
  if (!HasUnwinder()) GTEST_SKIP() << "no libdw";
  FiberLatch latch(1);
  Fiber waiter = Named("waiter", [&] { WaitInTheOuterFunction(&latch); });
  static_cast<void>(DumpUntil("name=waiter", ", parked: latch"));
  const std::string dump = DumpText({.filter = "name=waiter"});
  const std::size_t wait = dump.find("weft::FiberLatch::Wait");
  const std::size_t inner = dump.find("WaitInTheInnerFunction(weft::FiberLatch*)");
  const std::size_t outer = dump.find("WaitInTheOuterFunction(weft::FiberLatch*)");
  const std::size_t begin = dump.find("weft::scheduling_group::Worker::FiberMain");
  ASSERT_NE(begin, std::string::npos) << dump;
  ASSERT_NE(outer, std::string::npos) << dump;
  EXPECT_TRUE(wait < inner && inner < outer && outer < begin) << dump;
  latch.CountDown();
  waiter.Join();
}

TEST_P(DumpFibersTest, EqualStacksAreShownOnceWithACount) {
  if (!HasUnwinder()) GTEST_SKIP() << "no libdw";
  FiberLatch latch(1);
  std::vector<Fiber> fibers;
  for (int i = 0; i < 300; ++i) fibers.push_back(Named("waiter", [&] { WaitInTheInnerFunction(&latch); }));
  Fiber other = Named("other", [&] { WaitInTheOuterFunction(&latch); });
  static_cast<void>(DumpUntil("state=parked,reason=latch", "301 of them match"));
  const std::string dump = DumpText({.filter = "reason=latch", .most_listed = 2});
  EXPECT_TRUE(Has(dump, "\n300 fibers, parked: latch " + AddressOf(&latch) + ", for ")) << dump;
  EXPECT_TRUE(Has(dump, "'waiter' (id " + std::to_string(fibers[0].Id()) + "), 'waiter' (id ")) << dump;
  EXPECT_TRUE(Has(dump, " and 298 more\n")) << dump;
  EXPECT_TRUE(Has(dump, "\nfiber 'other' (id ")) << dump;
  latch.CountDown();
  for (Fiber& fiber : fibers) fiber.Join();
  other.Join();
}

// Fibers that run and wait by turns, in the same place of the stack: what is shown is of one wait.
TEST_P(DumpFibersTest, AStackThatIsShownIsOneThatTheFiberHad) {
  if (!HasUnwinder()) GTEST_SKIP() << "no libdw";
  std::atomic<bool> stop{false};
  FiberSemaphore ping(0);
  FiberSemaphore pong(0);
  Fiber one = Named("one", [&] {
    while (!stop) {
      ping.Release();
      pong.Acquire();
    }
    ping.Release();
  });
  Fiber two = Named("two", [&] {
    while (!stop) {
      ping.Acquire();
      pong.Release();
    }
    pong.Release();
  });
  for (int i = 0; i < testing::Scaled(100); ++i) {
    const std::string dump = DumpText({.filter = "name=one"});
    if (!Has(dump, ", parked: semaphore")) continue;
    EXPECT_TRUE(Has(dump, ", parked: semaphore " + AddressOf(&pong))) << dump;
    if (Has(dump, "not shown")) continue;
    EXPECT_TRUE(Has(dump, "weft::FiberSemaphore::")) << dump;
    EXPECT_TRUE(Has(dump, "Worker::FiberMain")) << dump;
  }
  stop = true;
  one.Join();
  two.Join();
}

// --- The rest ---

TEST_P(DumpFibersTest, AFiberMayDumpWhileOthersRun) {
  InFiber([&] {
    std::atomic<bool> ran{false};
    Fiber other = Named("other", [&] { ran = true; });
    std::string dump;
    // Not by a yield of ours: it runs while we wait for a dump.
    while (!ran || !Has(dump, "parked: event 0x")) dump = DumpText();
    other.Join();
  });
}

TEST_P(DumpFibersTest, AgesGrow) {
  FiberEvent event;
  Fiber waiter = Named("waiter", [&] { event.Wait(); });
  static_cast<void>(DumpUntil("name=waiter,age=50ms", "1 of them match"));
  EXPECT_TRUE(Has(DumpText({.filter = "name=waiter,age=1h", .stacks = false}), "0 of them match"));
  event.Set();
  waiter.Join();
}

TEST_P(DumpFibersTest, AnUnknownFilterIsOneLine) {
  for (const char* filter : {"colour=red", "name", "state=asleep", "reason=fun", "age=5", "group=1x", "id=-1", "=1"}) {
    std::ostringstream out;
    EXPECT_FALSE(DumpFibers(out, {.filter = filter}));
    const std::string text = out.str();
    EXPECT_EQ(text.find("DumpFibers: unknown filter '" + std::string(filter) + "': "), 0u) << text;
    EXPECT_EQ(text.find('\n'), text.size() - 1) << text;
  }
}

// --- docs/diagnosing.md ---

// What a dump says, without stacks (of which the page leaves out lines) and numbers.
std::string Heads(const std::string& dump) {
  std::istringstream lines(dump);
  std::string heads;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("  0x") && line != "  ...") heads += line + "\n";
  }
  heads = std::regex_replace(heads, std::regex("0x[0-9a-f]+"), "0x");
  heads = std::regex_replace(heads, std::regex("[0-9][0-9.e+]*"), "N");
  return std::regex_replace(heads, std::regex(" to N s"), "");
}

// The first dump of the page, from the line on that begins so.
std::string DumpOfThePage(const char* path = WEFT_DOCS_DIR "/diagnosing.md", const char* begin = "    weft: ") {
  std::ifstream page(path);
  std::string dump;
  for (std::string line; std::getline(page, line);) {
    if (dump.empty() && !line.starts_with(begin)) continue;
    if (!line.empty() && !line.starts_with("    ")) break;
    dump += (line.empty() ? line : line.substr(4)) + "\n";
  }
  while (dump.ends_with("\n\n")) dump.pop_back();
  return dump;
}

WEFT_NOINLINE void RefreshPrices(FiberMutex* prices, FiberEvent* answer) {
  const std::scoped_lock lock(*prices);
  answer->Wait();
}
WEFT_NOINLINE void ServeRequest(FiberMutex* prices) {
  const std::scoped_lock lock(*prices);
  asm volatile("");
}
WEFT_NOINLINE void ParseFile(const std::atomic<bool>* stop) {
  while (!stop->load(std::memory_order_relaxed)) base::CpuRelax();
  asm volatile("");
}

TEST(DumpPage, ThePageOfDiagnosingShowsWhatADumpSays) {
  if (!HasUnwinder()) GTEST_SKIP() << "no libdw";
  fiber::RuntimeOf runtime(fiber::Shape{1, 1});
  FiberMutex prices;
  FiberEvent answer;
  std::atomic<bool> stop{false};
  Fiber refresh = Named("refresh", [&] { RefreshPrices(&prices, &answer); });
  static_cast<void>(DumpUntil("name=refresh", ", parked: event"));
  std::vector<Fiber> requests;
  for (int i = 0; i < 3; ++i) requests.push_back(Named("request", [&] { ServeRequest(&prices); }));
  static_cast<void>(DumpUntil("reason=mutex", "3 of them match"));
  Fiber closer = Named("closer", [&] { EXPECT_TRUE(refresh.Join(1h)); });
  static_cast<void>(DumpUntil("reason=join", "1 of them match"));
  Fiber parser = Named("parser", [&] { ParseFile(&stop); });
  std::string dump;
  do {
    dump = DumpText();
  } while (!Has(dump, "parser' (id") || !Has(dump, "running, ") ||
           (!WEFT_TSAN && !Has(dump, "ParseFile")));  // Without CPU it does not answer.
  if (!WEFT_TSAN) {
    EXPECT_EQ(Heads(dump), Heads(DumpOfThePage())) << dump;
    const std::string piece = Heads(DumpOfThePage(WEFT_DOCS_DIR "/../README.md", "    3 fibers, parked"));
    EXPECT_TRUE(piece.size() > 100 && Has(Heads(dump), piece)) << piece;
  }
  stop = true;
  answer.Set();
  closer.Join();  // It has joined refresh.
  parser.Join();
  for (Fiber& request : requests) request.Join();
}

struct Reminder {
  void operator()() const {}
};

TEST_P(DumpFibersTest, TimersAreShownByTheirCallbacks) {
  EXPECT_FALSE(Has(DumpText(), "timers with callbacks")) << "there are none";
  std::vector<std::uint64_t> timers;
  for (int i = 0; i < 1'000; ++i) timers.push_back(SetFiberTimer(1h + i * 1s, Reminder{}));
  timers.push_back(SetFiberTimer(2h, 1s, [wide = std::array<char, 40>{}] { static_cast<void>(wide); }));
  timers.push_back(CreateFiberTimer(1h, Reminder{}));  // Not enabled: it is not set.
  const std::regex shown(
      "\n1001 timers with callbacks are set\n"
      "  1000 with weft::observe::.*Reminder, due in 3.6e\\+03 s to 4.6e\\+03 s\n"
      "  1 with .*(TimersAreShownByTheirCallbacks|dump_fibers_test.cc:[0-9]+).*, 1 of them periodic, due in 7.2e\\+03 "
      "s\n");
  const std::string dump = DumpText();
  EXPECT_TRUE(std::regex_search(dump, shown)) << dump;
  EXPECT_FALSE(Has(DumpText({.filter = "state=parked"}), "timers with callbacks"));
  const std::string json = DumpText({.format = DumpOptions::Format::kJson});
  EXPECT_TRUE(Has(json, "\"timers\": [\n  {\"count\": 1000, \"callback\": \"weft::observe::")) << json;
  EXPECT_TRUE(Has(json, "\"periodic\": 1, \"next_due_in_ms\": 719")) << json;
  for (const std::uint64_t timer : timers) KillFiberTimer(timer);
  EXPECT_FALSE(Has(DumpText(), "timers with callbacks")) << "they have ended";
}

// As in a forked child of a process that was setting a timer.
TEST_P(DumpFibersTest, AShardWhoseLockIsHeldForEverIsLeftOut) {
  timer::TimerShard* shard = nullptr;
  const std::uint64_t timer = SetFiberTimer(1h, Reminder{});
  for (const auto& chunk : timer::weft_timer_chunks) {
    if (chunk.load() != nullptr && chunk.load()->live != 0) shard = chunk.load()->shard;
  }
  ASSERT_NE(shard, nullptr);
  shard->lock.lock();
  const timer::TimerCensus census = timer::TakeTimerCensus();
  shard->lock.unlock();
  EXPECT_FALSE(census.complete);
  EXPECT_EQ(census.count, 0u);
  EXPECT_TRUE(timer::TakeTimerCensus().complete);
  KillFiberTimer(timer);
}

TEST(DumpNamedGroups, AFiberIsShownWithTheNameOfItsGroup) {
  const fiber::RuntimeOf runtime(fiber::NamedGroupsOf("latency:1,batch:1"));
  FiberEvent event;
  Fiber first({.name = "one"}, [&] { event.Wait(); });
  Fiber second({.scheduling_group = SchedulingGroupNamed("batch"), .name = "two"}, [&] { event.Wait(); });
  static_cast<void>(DumpUntil("name=one", ", parked: event"));
  static_cast<void>(DumpUntil("name=two", ", parked: event"));
  const std::string both = DumpText({.filter = "reason=event", .stacks = false});
  EXPECT_TRUE(Has(both, "in group 0 (latency) 1 (batch)\n")) << both;
  const std::string one = DumpText({.filter = "group=batch", .stacks = false});
  EXPECT_TRUE(Has(one, "1 of them match 'group=batch'")) << one;
  EXPECT_TRUE(Has(one, "fiber 'two'")) << one;
  EXPECT_FALSE(Has(one, "is called")) << one;
  const std::string misspelled = DumpText({.filter = "group=bach", .stacks = false});
  EXPECT_TRUE(Has(misspelled, "no scheduling group is called 'bach'; there are batch, latency\n")) << misspelled;
  const std::string json = DumpText({.format = DumpOptions::Format::kJson, .filter = "group=latency"});
  EXPECT_TRUE(Has(json, "\"group\": 0, \"group_name\": \"latency\"")) << json;
  event.Set();
  first.Join();
  second.Join();
}

TEST_P(DumpFibersTest, JsonIsRead) {
  if (std::system("python3 -c 'import json' 2>/dev/null") != 0) GTEST_SKIP() << "no python3";
  FiberEvent event;
  Fiber quoted = Named("a \"name\"\n\xff", [&] { event.Wait(); });
  Fiber joiner = Named("joiner", [&] { EXPECT_TRUE(quoted.Join(1h)); });
  static_cast<void>(DumpUntil("reason=event", "1 of them match"));
  static_cast<void>(DumpUntil("reason=join", "1 of them match"));
  const std::string json = DumpText({.format = DumpOptions::Format::kJson});
  FILE* const python = ::popen(
      R"(python3 -c '
import json, sys
dump = json.load(sys.stdin)
groups = {g.get("reason"): g for g in dump["groups"]}
waiter = groups["event"]["fibers"][0]
assert waiter["name"] == "a \"name\"\n\u00ff", waiter
assert groups["event"]["count"] == 1 and groups["event"]["state"] == "parked"
joiner = groups["join"]["fibers"][0]
assert joiner["owner"] == waiter["id"] and 0 < joiner["deadline_in_ms"] <= 3600000, joiner
assert "timers" not in dump, dump["timers"]
assert dump["cycles"] == [], dump["cycles"]
assert dump["why_no_stacks"] or any("FiberMain" in f["function"] for f in dump["stacks"][groups["join"]["stack"]])
')",
      "w");
  ASSERT_NE(python, nullptr);
  EXPECT_EQ(std::fwrite(json.data(), 1, json.size(), python), json.size());
  EXPECT_EQ(::pclose(python), 0) << json;
  event.Set();
  joiner.Join();
}

}  // namespace
}  // namespace weft::observe
