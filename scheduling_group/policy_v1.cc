// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/policy_v1.h"

#include <algorithm>
#include <cstdint>

#include "weft/scheduling_group/prefetch_fiber.h"

namespace weft::scheduling_group {

PolicyV1::PolicyV1(const Options& options)
    : queue_(options.run_queue_size, options.workers, options.node),
      workers_(options.workers),
      worker_queues_(options.workers, options.node) {}

PolicyV1::~PolicyV1() = default;

void PolicyV1::PushBatch(FiberEntity* const* fibers, std::size_t count, ReadyReason reason, int worker) {
  if (WokenFromOutside(reason, worker)) {
    queue_.PushWoken(fibers, count);
    return;
  }
  if (worker != kNoWorker) FlushPushBuffer(worker_queues_[worker]);  // They came first.
  queue_.Push(fibers, count);
}

WEFT_NOINLINE void PolicyV1::PushRarelyAndFence(FiberEntity* fiber, ReadyReason reason, int worker) {
  Push(fiber, reason, worker);
  base::ThreadFence(std::memory_order_seq_cst);
}

WEFT_NOINLINE bool PolicyV1::PushBehindBuffer(WorkerQueues& queues, FiberEntity* fiber) {
  if (Full()) return false;
  FlushPushBuffer(queues);
  queues.must_notify = true;  // V6
  return queues.push_buffer.Push(fiber) || queue_.TryPush(fiber);
}

WEFT_NOINLINE void PolicyV1::FlushPushBuffer(WorkerQueues& queues) {
  if (queues.push_buffer.Empty()) return;
  FiberEntity* fibers[kMaxBatch];
  const std::uint32_t n = queues.push_buffer.PopAll(fibers);
  if (n != 0) queue_.Push(fibers, n);
}

WEFT_NOINLINE FiberEntity* PolicyV1::VisitQueue(WorkerQueues& queues, bool* must_notify) {
  const std::int64_t now = std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  AdaptBatch(queues, now);
  if (++queues.visits % kRescueEvery == 0) {
    if (FiberEntity* fiber = TakeFromStuckWorker(queues, now)) {
      *must_notify = true;  // V6
      return fiber;
    }
  }
  if (!queues.push_buffer.Empty()) {
    if (!queue_.HasWork()) return queues.push_buffer.Pop();  // Nobody is before them.
    FlushPushBuffer(queues);
    *must_notify = true;  // V6
  }
  FiberEntity* fibers[kMaxBatch];
  const std::size_t n = queue_.PopShare(fibers, queues.batch, &queues.shares);
  queues.taken = static_cast<std::uint32_t>(n);
  if (n == 0) return nullptr;
  queues.counts.CountVisit(n);
  PrefetchShare(fibers, n);  // While they are in our hand: from a ring another may run them.
  if (n > 1) {
    KeepForLater(queues, fibers + 1, n - 1);
    *must_notify = true;  // V6
  }
  return fibers[0];
}

void PolicyV1::AdaptBatch(WorkerQueues& queues, std::int64_t now) {
  if (queues.taken == queues.batch) {  // Else the last visit did not bring a full batch, and time passed otherwise.
    const std::int64_t took = now - queues.visited_at.load(std::memory_order_relaxed);
    const bool quick = took < std::chrono::nanoseconds(kBatchTime).count();
    queues.batch = quick ? std::min(queues.batch * 2, kMaxBatch) : std::max(queues.batch / 2, 1u);
  }
  queues.visited_at.store(now, std::memory_order_relaxed);  // A heuristic (V5).
}

// The pop buffer of a worker that comes here is empty, and holds kMaxBatch; but for one that looks at others' queues
// first.
void PolicyV1::KeepForLater(WorkerQueues& queues, FiberEntity* const* fibers, std::size_t count) {
  const std::size_t kept = queues.pop_buffer.PushSome(fibers, static_cast<std::uint32_t>(count));
  if (kept != count) queue_.Push(fibers + kept, count - kept);
}

// Half of a buffer, into the pop buffer of the worker that takes.
FiberEntity* PolicyV1::TakeFromBuffers(WorkerQueues& from, WorkerQueues& own) {
  for (Ring* buffer : {&from.pop_buffer, &from.push_buffer}) {
    if (buffer->Empty()) continue;
    FiberEntity* fibers[kMaxBatch];
    const std::uint32_t n = buffer->PopHalf(fibers);
    if (n == 0) continue;
    KeepForLater(own, fibers + 1, n - 1);
    return fibers[0];
  }
  return nullptr;
}

FiberEntity* PolicyV1::TakeFromStuckWorker(WorkerQueues& own, std::int64_t now) {
  for (unsigned w = 0; w < workers_; ++w) {
    WorkerQueues& queues = worker_queues_[w];
    if (&queues == &own) continue;
    const std::int64_t since = now - queues.visited_at.load(std::memory_order_relaxed);
    if (since < std::chrono::nanoseconds(kStuckAfter).count()) continue;
    if (FiberEntity* fiber = TakeFromBuffers(queues, own)) return fiber;
  }
  return nullptr;
}

FiberEntity* PolicyV1::PopFromBusyWorkers(unsigned worker, SpinMemory* memory) {
  if (workers_ == 1) return nullptr;
  WorkerQueues& own = worker_queues_[worker];
  for (unsigned step = 1; step < workers_; ++step) {
    if (FiberEntity* fiber = TakeFromBuffers(worker_queues_[(worker + step) % workers_], own)) return fiber;
  }
  return TakeNeglectedHandOff(worker_queues_.objects(), worker, std::chrono::steady_clock::now(), memory);
}

FiberEntity* PolicyV1::Steal(bool* must_notify) {
  if (FiberEntity* fiber = queue_.Steal(must_notify)) return fiber;  // V6
  if (workers_ == 1) return nullptr;
  for (WorkerQueues& queues : worker_queues_.objects()) {
    for (Ring* buffer : {&queues.pop_buffer, &queues.push_buffer}) {
      // Once from end to end, however fast its worker adds to it. Group-local fibers go to the queue, so that they hide
      // none.
      for (std::uint32_t tries = kMaxBatch; tries != 0; --tries) {
        FiberEntity* fiber = buffer->Pop();
        if (fiber == nullptr) break;
        if (!fiber->group_local()) return fiber;
        queue_.Push(fiber);
        *must_notify = true;  // V6
      }
    }
  }
  return nullptr;
}

// The callers' fences order it (SP1).
bool PolicyV1::HasWork() const {
  if (queue_.HasWork()) return true;
  for (unsigned w = 0; w < workers_; ++w) {
    const WorkerQueues& queues = worker_queues_[w];
    if (queues.slot.Full()) return true;
    if (!queues.pop_buffer.Empty() || !queues.push_buffer.Empty()) return true;
  }
  return false;
}

bool PolicyV1::HasStealable() const {
  if (queue_.HasWork()) return true;
  for (unsigned w = 0; w < workers_; ++w) {
    if (!worker_queues_[w].pop_buffer.Empty() || !worker_queues_[w].push_buffer.Empty()) return true;
  }
  return false;
}

bool PolicyV1::Full() const { return queue_.Full(); }

bool PolicyV1::HalfEmpty() const { return queue_.HalfEmpty(); }

std::size_t PolicyV1::Size() const {
  std::size_t size = queue_.Size();
  for (unsigned w = 0; w < workers_; ++w) {
    const WorkerQueues& queues = worker_queues_[w];
    size += queues.pop_buffer.Size() + queues.push_buffer.Size() + (queues.slot.Full());
  }
  return size;
}

std::vector<std::span<const std::byte>> PolicyV1::Memory() const {
  const auto [normal, woken] = queue_.slots();
  return {std::as_bytes(std::span(this, 1)), normal, woken, std::as_bytes(worker_queues_.objects())};
}

std::size_t PolicyV1::OverflowCount() const { return queue_.overflow_count(); }

}  // namespace weft::scheduling_group
