// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Weft, as the workloads see it.
#ifndef WEFT_BENCH_WORKLOAD_WEFT_RUNTIME_H_
#define WEFT_BENCH_WORKLOAD_WEFT_RUNTIME_H_

#include <gflags/gflags.h>
#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "weft/bench/workload/harness.h"
#include "weft/fiber/async.h"
#include "weft/weft.h"

namespace weft::bench {

struct WeftRuntime {
  static constexpr const char* kName = "weft";
  static constexpr std::int64_t kSpawnDivisor = 1;
  static constexpr std::int64_t kBlockDivisor = 1;
  static constexpr std::int64_t kLiveDivisor = 1;
  static constexpr bool kStartsFromThreads = true;
  static constexpr bool kLightWeight = true;
  static constexpr bool kHasYield = true;
  static constexpr bool kHasTimers = true;
  static constexpr bool kHasChannel = true;

  using Mutex = FiberMutex;
  using ConditionVariable = FiberConditionVariable;
  using Latch = FiberLatch;
  using Event = FiberEvent;
  struct Semaphore : private FiberSemaphore {
    using FiberSemaphore::FiberSemaphore;
    void acquire() { Acquire(); }
    void release() { Release(); }
  };
  using TimerId = std::uint64_t;
  using Scope = FiberScope;

  class Channel {
   public:
    explicit Channel(std::size_t slots) : channel_(slots) {}
    void Put(int item) { Require(channel_.Put(item) == ChannelResult::kOk, "an open channel takes an item"); }
    int Take() {
      const auto item = channel_.Get();
      Require(item.has_value(), "an open channel gives an item");
      return *item;
    }

   private:
    friend struct WeftRuntime;
    FiberChannel<int> channel_;
  };

  class Socket {
   public:
    explicit Socket(int fd) : stream_(io::Descriptor(fd)) {}
    void Send(const void* data, std::size_t size) { Require(stream_.WriteAll(data, size).ok(), "a socket sends"); }
    bool Receive(void* data, std::size_t size) {
      const io::IoResult got = stream_.ReadAll(data, size);
      Require(got.ok() && (got.bytes == 0 || got.bytes == size), "a socket receives all that was sent");
      return got.bytes == size;
    }
    void Finish() { Require(!stream_.ShutdownWrite(), "a socket can be shut down"); }

   private:
    io::TcpStream stream_;
  };
  static std::pair<Socket, Socket> ConnectedSockets() {
    int fds[2];
    Require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0, "a pair of sockets can be made");
    return {Socket(fds[0]), Socket(fds[1])};
  }

  static int TakeFromEither(Channel& a, Channel& b) {
    int item = 0;
    const auto take = [&item](const ChannelItem<int>& got) {
      Require(got.has_value(), "an open channel gives an item");
      item = *got;
    };
    Select(OnGet(a.channel_, take), OnGet(b.channel_, take));
    return item;
  }

  template <class F>
  static auto StartTask(F&& f) {
    return FiberTask(std::forward<F>(f));
  }

  template <class F>
  static auto StartAsync(F&& f) {
    return Async(std::forward<F>(f));
  }

  static void Start(int workers, int groups) {
    // Only what this program's command line asks for; Weft's own flags and defaults decide the rest.
    google::SetCommandLineOption("fiber_concurrency_hint", std::to_string(workers).c_str());
    google::SetCommandLineOption("fiber_scheduling_group_size",
                                 std::to_string((workers + groups - 1) / groups).c_str());
    StartRuntime();
    Require(GetSchedulingGroupCount() == static_cast<std::size_t>(groups), "there are as many groups as asked for");
  }

  static void Stop() { TerminateRuntime(); }

  template <class F>
  static bool Spawn(F&& f) {
    return StartFiberDetached(std::forward<F>(f));
  }

  static int GroupCount() { return static_cast<int>(GetSchedulingGroupCount()); }

  // In the group, but as a fiber of it starts another one: free to leave it (FiberAttributes::scheduling_group).
  template <class F>
  static void SpawnIn(int group, F f) {
    auto starter = [f] { Require(Spawn(f), "a fiber can be started from a fiber"); };
    const FiberAttributes there{.scheduling_group = static_cast<std::size_t>(group), .scheduling_group_local = true};
    Require(StartFiberDetached(there, starter), "a fiber can be started in a group");
  }

  // It stays there.
  template <class F>
  static void SpawnBoundTo(int group, F f) {
    const FiberAttributes there{.scheduling_group = static_cast<std::size_t>(group), .scheduling_group_local = true};
    Require(StartFiberDetached(there, f), "a fiber can be started in a group");
  }

  template <class F>
  static void RunInside(F&& f) {
    FiberLatch done(1);
    auto body = [&] {
      f();
      done.CountDown();
    };
    Require(StartFiberDetached(body), "a fiber can be started from a plain thread");
    done.Wait();
  }

  static void Yield() { FiberYield(); }

  static void SleepFor(std::chrono::nanoseconds duration) { FiberSleepFor(duration); }

  template <class F>
  static TimerId SetTimer(std::chrono::steady_clock::time_point at, F&& f) {
    return SetFiberTimer(at, std::forward<F>(f));
  }

  static void CancelTimer(TimerId id) { KillFiberTimer(id); }

  static std::string DescribeGuards() {
    std::string enabled = "unknown";
    google::GetCommandLineOption("fiber_stack_enable_guard_page", &enabled);
    return "guard pages enabled: " + enabled;
  }
};

}  // namespace weft::bench

#endif  // WEFT_BENCH_WORKLOAD_WEFT_RUNTIME_H_
