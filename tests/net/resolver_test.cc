// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/net/resolver.h"

#include <gtest/gtest.h>
#include <netdb.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "weft/fiber/fiber.h"
#include "weft/io/fiber_blocking.h"
#include "weft/io/file.h"

#include "io/blocking_fixture.h"

namespace weft::io {
namespace {

using namespace std::chrono_literals;

// A source of names: it answers 10.0.0.1 to all but "none" and "dead", and may be stopped.
class Names {
 public:
  Resolver::Options Options(Resolver::Caching caching = {}, std::int64_t threads = 64) {
    Resolver::Options options;
    options.threads = threads;
    options.caching = caching;
    options.look_up = [this](const std::string& host, const std::string&, ResolveOptions) -> ResolveResult {
      {
        const std::scoped_lock lock(mutex_);
        asked_.push_back(host);
      }
      if (stopped) gate.Pass();
      if (host == "none") return {{EAI_NONAME, ResolveCategory()}, {}};
      if (host == "dead") return {{EAI_AGAIN, ResolveCategory()}, {}};
      if (host == "throws") throw std::bad_alloc();
      return {{}, {*SocketAddress::Parse("10.0.0.1:80")}};
    };
    return options;
  }
  std::vector<std::string> asked() {
    const std::scoped_lock lock(mutex_);
    return asked_;
  }

  std::atomic<bool> stopped{false};
  Gate gate;

 private:
  std::mutex mutex_;
  std::vector<std::string> asked_;
};

class ResolverTest : public ::testing::TestWithParam<fiber::Shape> {
 protected:
  template <class F>
  static void InFiberAndInThread(F&& f) {
    Fiber([&] { f(); }).Join();
    std::thread([&] { f(); }).join();
  }
  static RuntimeOptions WithOneThreadForFiles(fiber::Shape shape) {
    RuntimeOptions options = fiber::OptionsOf(shape);
    options.blocking_threads = 1;
    return options;
  }

 private:
  fiber::RuntimeOf runtime_{WithOneThreadForFiles(GetParam())};
};
INSTANTIATE_TEST_SUITE_P(Shapes, ResolverTest,
                         ::testing::Values(fiber::Shape{1, 1}, fiber::Shape{2, 1}, fiber::Shape{4, 1},
                                           fiber::Shape{8, 1}),
                         &fiber::NameOf);

// It was: all blocking calls shared the threads, and those of 200 dead name servers were busy for 10 s.
TEST_P(ResolverTest, DeadLookUpsDelayNoFile) {
  Names names;
  names.stopped = true;
  Resolver resolver(names.Options());
  std::vector<Fiber> asking;
  for (int i = 0; i < 200; ++i) {
    asking.emplace_back([&, i] { EXPECT_TRUE(resolver.Resolve("host" + std::to_string(i), "80").ok()); });
  }
  YieldUntil([&] { return names.gate.arrived() == 64; });
  Fiber([] { EXPECT_TRUE(ReadFile("/proc/self/stat").error == std::error_code()); }).Join();
  EXPECT_EQ(names.gate.arrived(), 64);
  names.gate.Open();
  for (Fiber& fiber : asking) fiber.Join();
}

TEST_P(ResolverTest, BusyThreadsForFilesDelayNoLookUp) {
  Gate gate;
  Fiber keeps_the_thread([&] { FiberBlocking([&] { gate.Pass(); }); });
  YieldUntil([&] { return gate.arrived() == 1; });
  InFiberAndInThread([] { EXPECT_TRUE(ResolveHost("localhost", "80").ok()); });
  gate.Open();
  keeps_the_thread.Join();
}

// RV1.
TEST_P(ResolverTest, EqualCallsAtTheSameTimeAskOnce) {
  Names names;
  names.stopped = true;
  Resolver resolver(names.Options());
  const auto ask = [&](const char* host) {
    const ResolveResult found = resolver.Resolve(host, "80");
    EXPECT_TRUE(found.ok());
    EXPECT_EQ(found.addresses.size(), 1U);
  };
  std::vector<Fiber> fibers;
  for (int i = 0; i < 20; ++i) fibers.emplace_back([&] { ask("shop"); });
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { ask("SHOP"); });
  YieldUntil([&] { return resolver.counts().joined == 23 || names.gate.arrived() > 1; });
  YieldUntil([&] { return names.gate.arrived() >= 1; });
  EXPECT_EQ(resolver.counts().pending, 1U);
  names.gate.Open();
  for (Fiber& fiber : fibers) fiber.Join();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(names.asked().size(), 1U);
  EXPECT_EQ(resolver.counts().pending, 0U);
  ask("shop");
  EXPECT_EQ(names.asked().size(), 2U) << "nothing is kept";
}

TEST_P(ResolverTest, CallsForSomethingElseAreNotMerged) {
  Names names;
  names.stopped = true;
  Resolver resolver(names.Options());
  std::vector<Fiber> fibers;
  fibers.emplace_back([&] { EXPECT_TRUE(resolver.Resolve("shop", "80").ok()); });
  fibers.emplace_back([&] { EXPECT_TRUE(resolver.Resolve("shop", "81").ok()); });
  fibers.emplace_back([&] { EXPECT_TRUE(resolver.Resolve("shop", "80", {.family = AF_INET}).ok()); });
  fibers.emplace_back([&] { EXPECT_TRUE(resolver.Resolve("shop", "80", {.socket_type = SOCK_DGRAM}).ok()); });
  YieldUntil([&] { return names.gate.arrived() == 4; });
  names.gate.Open();
  for (Fiber& fiber : fibers) fiber.Join();
}

// RV2: whoever asked first.
TEST_P(ResolverTest, ACallThatGivesUpLeavesTheOthersTheirAnswer) {
  Names names;
  names.stopped = true;
  Resolver resolver(names.Options());
  Fiber first([&] { EXPECT_EQ(resolver.Resolve("shop", "80").error, std::errc::operation_canceled); });
  YieldUntil([&] { return names.gate.arrived() == 1; });
  Fiber second([&] { EXPECT_TRUE(resolver.Resolve("shop", "80").ok()); });
  YieldUntil([&] { return resolver.counts().joined == 1; });
  EXPECT_TRUE(first.Cancel());
  first.Join();
  InFiberAndInThread([&] { EXPECT_EQ(resolver.Resolve("shop", "80", {}, 1ms).error, std::errc::timed_out); });
  names.gate.Open();
  second.Join();
  EXPECT_EQ(names.asked().size(), 1U);
}

// RV2, RV4: whether the first or the last one gives up.
TEST_P(ResolverTest, AQuestionIsAskedIfSomebodyStillWaitsWhenItsTurnComes) {
  Names names;
  names.stopped = true;
  Resolver resolver(names.Options({}, /*threads=*/1));
  Fiber busy([&] { EXPECT_TRUE(resolver.Resolve("busy", "80").ok()); });
  YieldUntil([&] { return names.gate.arrived() == 1; });
  InFiberAndInThread([&] { EXPECT_EQ(resolver.Resolve("gone", "80", {}, 1ms).error, std::errc::timed_out); });
  Fiber first([&] { EXPECT_EQ(resolver.Resolve("wanted", "80").error, std::errc::operation_canceled); });
  YieldUntil([&] { return resolver.counts().pending == 3; });
  Fiber second([&] { EXPECT_TRUE(resolver.Resolve("wanted", "80").ok()); });
  YieldUntil([&] { return resolver.counts().joined == 2; });  // The second call for "gone" was the first.
  EXPECT_TRUE(first.Cancel());
  first.Join();
  names.gate.Open();
  busy.Join();
  second.Join();
  EXPECT_EQ(names.asked(), (std::vector<std::string>{"busy", "wanted"}));
  InFiberAndInThread([&] { EXPECT_TRUE(resolver.Resolve("gone", "80").ok()); });
}

// RV3: the queue was full.
TEST_P(ResolverTest, ACallWaitsForRoomInTheQueue) {
  Names names;
  names.stopped = true;
  Resolver::Options options = names.Options({}, /*threads=*/1);
  options.queue_size = 1;
  Resolver resolver(options);
  Fiber busy([&] { EXPECT_TRUE(resolver.Resolve("busy", "80").ok()); });
  YieldUntil([&] { return names.gate.arrived() == 1; });
  Fiber queued([&] { EXPECT_TRUE(resolver.Resolve("queued", "80").ok()); });
  YieldUntil([&] { return resolver.counts().pending == 2; });
  std::atomic<bool> impatient{false};
  Fiber first([&] {
    impatient = true;
    EXPECT_EQ(resolver.Resolve("shop", "80", {}, 5ms).error, std::errc::timed_out);
  });
  YieldUntil([&] { return impatient.load(); });
  Fiber second([&] { EXPECT_TRUE(resolver.Resolve("shop", "80", {}, 10s).ok()); });  // Joins it, and asks anew.
  first.Join();
  names.gate.Open();
  busy.Join();
  queued.Join();
  second.Join();
}

TEST_P(ResolverTest, AddressesAsTextAreAnsweredInPlace) {
  Names names;
  Resolver resolver(names.Options());
  InFiberAndInThread([&] {
    EXPECT_EQ(resolver.Resolve("10.1.2.3", "80").addresses.front().ToString(), "10.1.2.3:80");
    EXPECT_EQ(resolver.Resolve("::1", "").addresses.front().ToString(), "[::1]:0");
  });
  EXPECT_EQ(resolver.counts().asked, 0U);
  for (const char* host : {"10.1.2", "fe80::1%lo", "10.1.2.3.example"}) EXPECT_TRUE(resolver.Resolve(host, "80").ok());
  EXPECT_TRUE(resolver.Resolve("10.1.2.3", "http").ok());
  EXPECT_TRUE(resolver.Resolve("10.1.2.3", "80", {.family = AF_INET6}).ok());
  EXPECT_EQ(resolver.counts().asked, 5U);
}

TEST_P(ResolverTest, AnExceptionIsAnError) {
  Names names;
  Resolver resolver(names.Options());
  EXPECT_EQ(resolver.Resolve("throws", "80").error, std::errc::not_enough_memory);
}

// --- What is kept ---

TEST_P(ResolverTest, AnAnswerIsKeptForItsTime) {
  Names names;
  Resolver resolver(names.Options({.ttl = 1h}));
  for (int i = 0; i < 2; ++i) {
    InFiberAndInThread([&] { EXPECT_EQ(resolver.Resolve("shop", "80").addresses.size(), 1U); });
  }
  EXPECT_EQ(names.asked().size(), 1U);
  EXPECT_EQ(resolver.counts().from_cache, 3U);
  EXPECT_TRUE(resolver.Resolve("shop", "80", {}, 0s).ok()) << "it need not wait";
  resolver.ForgetKept();
  EXPECT_TRUE(resolver.Resolve("shop", "80").ok());
  EXPECT_EQ(names.asked().size(), 2U);
  resolver.SetCaching({.ttl = 1ns});
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(resolver.Resolve("shop", "80").ok());
  EXPECT_EQ(names.asked().size(), 4U) << "it is too old";
  EXPECT_EQ(resolver.counts().kept, 1U);
}

TEST_P(ResolverTest, ThatThereIsNoSuchNameIsKeptButNoFailure) {
  Names names;
  Resolver resolver(names.Options({.ttl = 1h, .negative_ttl = 1h}));
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(resolver.Resolve("none", "80").error, std::error_code(EAI_NONAME, ResolveCategory()));
    EXPECT_EQ(resolver.Resolve("dead", "80").error, std::errc::resource_unavailable_try_again);
  }
  EXPECT_EQ(names.asked(), (std::vector<std::string>{"none", "dead", "dead"}));
  resolver.SetCaching({.ttl = 1h});
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(resolver.Resolve("none", "80").ok());
  EXPECT_EQ(names.asked().size(), 5U);
}

TEST_P(ResolverTest, TheOldestAnswersGoWhenThereAreTooMany) {
  Names names;
  Resolver resolver(names.Options({.ttl = 1h, .max_entries = 3}));
  for (const char* host : {"a", "b", "c", "d"}) EXPECT_TRUE(resolver.Resolve(host, "80").ok());
  EXPECT_EQ(resolver.counts().kept, 3U);
  for (const char* host : {"d", "c", "b"}) EXPECT_TRUE(resolver.Resolve(host, "80").ok());
  EXPECT_EQ(names.asked().size(), 4U);
  EXPECT_TRUE(resolver.Resolve("a", "80").ok());
  EXPECT_EQ(names.asked().size(), 5U);
}

TEST_P(ResolverTest, ManyAskForAFewNamesWithLittleTime) {
  Names names;
  Resolver resolver(names.Options({.ttl = 20us, .max_entries = 2}, /*threads=*/2));
  std::atomic<int> answered{0};
  const auto ask = [&](unsigned seed) {
    for (unsigned i = 0; i < 200; ++i) {
      const Deadline limit = (i + seed) % 3 == 0 ? Deadline(10us) : Deadline::None();
      const ResolveResult found = resolver.Resolve("host" + std::to_string((i * 7 + seed) % 5), "80", {}, limit);
      if (found.ok()) ++answered;
      if (limit.is_none()) {
        EXPECT_TRUE(found.ok()) << found.error.message();
      }
    }
  };
  std::vector<Fiber> fibers;
  for (unsigned i = 0; i < 8; ++i) fibers.emplace_back([&, i] { ask(i); });
  std::thread thread([&] { ask(8); });
  for (Fiber& fiber : fibers) fiber.Join();
  thread.join();
  EXPECT_GE(answered.load(), 9 * 133);
  YieldUntil([&] { return resolver.counts().pending == 0; });
}

}  // namespace
}  // namespace weft::io
