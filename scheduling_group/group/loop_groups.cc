// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/group/loop_groups.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace weft::scheduling_group {
namespace {

struct Pool {
  std::mutex mutex;
  std::vector<std::unique_ptr<LoopGroup>> all;
  std::vector<LoopGroup*> free;
};

Pool& ThePool() {
  static auto* const pool = new Pool;  // Never destroyed, nor what is in it.
  return *pool;
}

// The forks that have made this process. relaxed: it changes while there is one thread.
constinit std::atomic<unsigned> forks{0};

// A child may have loops, though another thread of its parent was in Borrow().
[[maybe_unused]] const int at_fork = ::pthread_atfork([] { ThePool().mutex.lock(); }, [] { ThePool().mutex.unlock(); },
                                                      [] {
                                                        ThePool().mutex.unlock();
                                                        forks.fetch_add(1, std::memory_order_relaxed);
                                                      });

// Whether a group made from `made` may serve for `wanted`: it can change its id no more, but what it records.
bool MayServe(const GroupOptions& made, GroupOptions wanted) {
  wanted.id = made.id;
  wanted.record_stack_every = made.record_stack_every;
  return made == wanted;
}

void WakeLoop(void* group) noexcept {
  // acquire: pairs with the release of who opened it.
  const int fd = static_cast<LoopGroup*>(group)->event_fd.load(std::memory_order_acquire);
  if (fd < 0) return;
  const std::uint64_t one = 1;
  if (::write(fd, &one, sizeof(one)) < 0) return;  // It is full, and hence readable.
}

}  // namespace

LoopGroup::LoopGroup(const GroupOptions& options, unsigned made_after_forks) : group(options), forks(made_after_forks) {
  group.SetLoopHook({.wake = &WakeLoop, .arg = this});
}

std::size_t LoopGroup::live_fibers() const noexcept {
  // What has ended first: never below zero. acquire: pairs with the release in CountFinished().
  const std::uint64_t finished = group.counters(0).finished.load(std::memory_order_acquire);
  return static_cast<std::size_t>(static_cast<const PolicyLoop&>(group.policy()).started() - finished);
}

LoopGroup* LoopGroups::Borrow(GroupOptions options) {
  options.of_loop = true;
  options.workers = 1;
  Pool& pool = ThePool();
  const std::lock_guard guard(pool.mutex);
  const auto found = std::find_if(pool.free.begin(), pool.free.end(), [&](const LoopGroup* group) {
    return group->forks == Forks() && MayServe(group->group.options(), options);  // DRV2
  });
  if (found != pool.free.end()) {
    LoopGroup* const group = *found;
    pool.free.erase(found);
    group->group.group_stacks().RecordAnew(options.record_stack_every);
    group->group.GoOn();
    return group;
  }
  if (pool.all.size() == kMost) return nullptr;
  options.id = kFirstId + static_cast<int>(pool.all.size());
  pool.free.reserve(pool.all.size() + 1);  // GiveBack() allocates nothing.
  pool.all.push_back(std::make_unique<LoopGroup>(options, Forks()));
  return pool.all.back().get();
}

void LoopGroups::GiveBack(LoopGroup* group) {
  group->group.Stop();  // Descriptors that are registered with its poller look for another one.
  while (group->group.group_stacks().Trim(0) != 0) continue;  // Of all sizes, some thousands a call.
  Pool& pool = ThePool();
  const std::lock_guard guard(pool.mutex);
  pool.free.push_back(group);
}

std::vector<const SchedulingGroup*> LoopGroups::All() {
  Pool& pool = ThePool();
  const std::lock_guard guard(pool.mutex);
  std::vector<const SchedulingGroup*> all;
  all.reserve(pool.all.size());
  for (const auto& group : pool.all) all.push_back(&group->group);
  return all;
}

std::size_t LoopGroups::Borrowed() {
  Pool& pool = ThePool();
  const std::lock_guard guard(pool.mutex);
  const auto forks_now = Forks();  // The parent's loops are not this process's.
  return static_cast<std::size_t>(std::count_if(pool.all.begin(), pool.all.end(), [&](const auto& group) {
    return group->forks == forks_now && std::find(pool.free.begin(), pool.free.end(), group.get()) == pool.free.end();
  }));
}

std::size_t LoopGroups::FibersStarted() {
  Pool& pool = ThePool();
  const std::lock_guard guard(pool.mutex);
  std::uint64_t sum = 0;
  for (const auto& group : pool.all) sum += group->policy().started();
  return static_cast<std::size_t>(sum);
}

std::size_t LoopGroups::FibersFinished() {
  Pool& pool = ThePool();
  const std::lock_guard guard(pool.mutex);
  std::uint64_t sum = 0;
  // relaxed: the fibers counted by EntityPool::LiveFibers() as given back were counted here before (EP3).
  for (const auto& group : pool.all) sum += group->group.counters(0).finished.load(std::memory_order_relaxed);
  return static_cast<std::size_t>(sum);
}

unsigned LoopGroups::Forks() noexcept { return forks.load(std::memory_order_relaxed); }

}  // namespace weft::scheduling_group
