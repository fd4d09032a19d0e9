// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// The workloads as a table, for any runtime. A runtime is a class without objects that has
//
//   kName                                        in the printed lines
//   kSpawnDivisor, kBlockDivisor, kLiveDivisor   shorten workloads that start, block, keep many; 1: it is not slow
//   kHasChannel, kHasTimers, kStartsFromThreads, kHasYield, kLightWeight   what it can express
//   Start(workers, groups), Stop()
//   Spawn(f) -> bool                             a detached fiber; false: refused
//   RunInside(f)                                 a plain thread runs f in a fiber and waits for it
//   Yield(), SleepFor(duration)
//   Mutex, ConditionVariable, Latch, Event       as in weft/sync; an Event has Wait, Set and Reset
//   Channel                                      Put(int), Take() -> int; when kHasChannel
//   TakeFromEither(Channel&, Channel&) -> int    if it has a select
//   ConnectedSockets() -> pair                   if it has sockets: ends with Send(data, size), Finish(), and
//                                                Receive(data, size), false at the end of what the other one sends
//   Scope, StartTask(f), StartAsync(f)           as FiberScope, FiberTask and Async; if it has a Scope
//   GroupCount(), SpawnIn(group, f)              if its workers are divided into groups; SpawnBoundTo(group, f), too
//   TimerId, SetTimer(at, f), CancelTimer(id)    when kHasTimers
//   DescribeGuards()                             a remark on its stacks
#ifndef WEFT_BENCH_WORKLOAD_ALL_WORKLOADS_H_
#define WEFT_BENCH_WORKLOAD_ALL_WORKLOADS_H_

#include "weft/bench/workload/channel.h"
#include "weft/bench/workload/fairness.h"
#include "weft/bench/workload/harness.h"
#include "weft/bench/workload/idle.h"
#include "weft/bench/workload/lopsided.h"
#include "weft/bench/workload/memory.h"
#include "weft/bench/workload/mutex.h"
#include "weft/bench/workload/pairs.h"
#include "weft/bench/workload/pingpong.h"
#include "weft/bench/workload/requests.h"
#include "weft/bench/workload/select.h"
#include "weft/bench/workload/skynet.h"
#include "weft/bench/workload/sleepers.h"
#include "weft/bench/workload/spawn.h"
#include "weft/bench/workload/start_beside.h"
#include "weft/bench/workload/tasks.h"
#include "weft/bench/workload/timers.h"
#include "weft/bench/workload/wake.h"
#include "weft/bench/workload/yield.h"

namespace weft::bench {

template <class Runtime>
RuntimeUnderTest Describe() {
  // name, row, function, rounds, limit in seconds
  std::vector<Workload> table;
  table.push_back({"spawn", "spawn", RunSpawn<Runtime>, 5, 60});
  if constexpr (Runtime::kStartsFromThreads && Runtime::kLightWeight) {
    table.push_back({"spawn_ext", "spawn_ext", RunSpawnExternal<Runtime>, 5, 60});
  }
  if constexpr (Runtime::kLightWeight) {
    table.push_back({"skynet", "skynet", RunSkynet<Runtime>, 5, 60});
    table.push_back({"skynet_1m", "skynet", RunSkynetMillion<Runtime>, 3, 120});
  }
  if constexpr (Runtime::kHasYield) table.push_back({"yield", "yield", RunYield<Runtime>, 5, 60});
  table.push_back({"pingpong", "pingpong", RunPingPong<Runtime>, 5, 60});
  if constexpr (requires { typename Runtime::Semaphore; }) {
    table.push_back({"pingpong_semaphore", "pingpong", RunPingPongSemaphore<Runtime>, 5, 60});
  }
  table.push_back({"pingpong_cv", "pingpong", RunPingPongConditionVariable<Runtime>, 5, 60});
  if constexpr (requires { &Runtime::GroupCount; }) {
    table.push_back({"pairs_1", "pairs_1", RunPairs<Runtime, 1>, 5, 60});
    table.push_back({"pairs", "pairs", RunPairs<Runtime, 16>, 5, 60});
    table.push_back({"pairs_256", "pairs_256", RunPairs<Runtime, 256>, 5, 60});
  }
  table.push_back({"mutex", "mutex", RunMutex<Runtime>, 5, 60});
  table.push_back({"mutex_yield", "mutex_yield", RunMutexYield<Runtime>, 5, 60});
  if constexpr (Runtime::kStartsFromThreads) {
    table.push_back({"wake", "wake", RunWake<Runtime>, 3, 120});
    table.push_back({"wake_park", "wake_park", RunWakeParked<Runtime>, 3, 120});
  }
  if constexpr (Runtime::kStartsFromThreads && Runtime::kLightWeight) {
    table.push_back({"wake_beside_threads", "wake_beside_threads", RunWakeBesideThreads<Runtime>, 1, 120});
    table.push_back({"wake_beside_busy_thread", "wake_beside_busy_thread", RunWakeBesideBusyThread<Runtime>, 3, 120});
    if constexpr (Runtime::kHasYield) {
      table.push_back({"start_beside", "start_beside", RunStartBeside<Runtime>, 3, 120});
      table.push_back({"left_behind", "left_behind", RunLeftBehind<Runtime>, 3, 120});
      table.push_back({"fair_turns", "fair_turns", RunFairTurns<Runtime>, 3, 120});
    }
  }
  table.push_back({"chan", "chan", RunChannel<Runtime>, 5, 60});
  if constexpr (requires { &Runtime::ConnectedSockets; }) {
    table.push_back({"requests", "requests", RunRequests<Runtime>, 5, 60});
  }
  if constexpr (requires { &Runtime::TakeFromEither; }) {
    table.push_back({"select", "select", RunSelect<Runtime>, 5, 60});
  }
  if constexpr (requires { typename Runtime::Scope; }) {
    table.push_back({"task", "task", RunTask<Runtime>, 5, 60});
    table.push_back({"async", "async", RunAsync<Runtime>, 5, 60});
    table.push_back({"scope", "scope", RunScope<Runtime>, 5, 60});
    table.push_back({"cancel", "cancel", RunCancel<Runtime>, 5, 60});
  }
  if constexpr (Runtime::kHasTimers) {
    table.push_back({"timers", "timers", RunTimers<Runtime>, 5, 60});
    table.push_back({"timers_stall", "timers_stall", RunTimersStall<Runtime>, 1, 60});
  }
  if constexpr (Runtime::kLightWeight) {
    table.push_back({"sleepers", "sleepers", RunSleepers<Runtime>, 5, 60});
    if constexpr (requires { &Runtime::GroupCount; }) {
      table.push_back({"sparse_sleepers", "sparse_sleepers", RunSparseSleepers<Runtime>, 5, 60});
    }
    table.push_back({"memory", "memory", RunMemory<Runtime>, 1, 60});
    table.push_back({"memory_1m", "memory", RunMemoryMillion<Runtime>, 1, 180});
    table.push_back({"idle", "idle", RunIdle<Runtime>, 1, 60});
  }
  if constexpr (Runtime::kStartsFromThreads && Runtime::kLightWeight) {
    table.push_back({"lopsided", "lopsided", RunLopsided<Runtime>, 5, 60});
    table.push_back({"trickle", "trickle", RunTrickle<Runtime>, 1, 60});
  }
  return {Runtime::kName, Runtime::Start, Runtime::Stop, table};
}

}  // namespace weft::bench

#endif  // WEFT_BENCH_WORKLOAD_ALL_WORKLOADS_H_
