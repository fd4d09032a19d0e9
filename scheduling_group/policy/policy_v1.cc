// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/policy/policy_v1.h"

#include <algorithm>
#include <cstdint>

#include "weft/scheduling_group/queue/global_queue.h"

namespace weft::scheduling_group {

PolicyV1::PolicyV1(const Options& options) : PolicyBase(options) {}

PolicyV1::~PolicyV1() = default;

void PolicyV1::PushBatch(FiberEntity* const* fibers, std::size_t count, ReadyReason reason, int worker) {
  if (worker != kNoWorker) FlushPushBuffer(QueuesOf(worker));  // They came first.
  PolicyBase::PushBatch(fibers, count, reason, worker);
}

WEFT_NOINLINE void PolicyV1::PushRarelyAndFence(FiberEntity* fiber, ReadyReason reason, int worker) {
  Push(fiber, reason, worker);
  base::ThreadFence(std::memory_order_seq_cst);
}

WEFT_NOINLINE bool PolicyV1::PushBehindBuffer(WorkerQueues& queues, FiberEntity* fiber) {
  if (Full()) return false;
  FlushPushBuffer(queues);
  queues.must_notify = true;  // V6
  return queues.push_buffer.Push(fiber) || global_.TryPush(fiber);
}

WEFT_NOINLINE void PolicyV1::FlushPushBuffer(WorkerQueues& queues) {
  if (queues.push_buffer.Empty()) return;
  FiberEntity* fibers[kMaxBatch];
  const std::uint32_t n = queues.push_buffer.PopAll(fibers);
  if (n != 0) global_.Push(fibers, n);
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
    if (!global_.HasWork()) return queues.push_buffer.Pop();  // No fiber is ahead of them.
    FlushPushBuffer(queues);
    *must_notify = true;  // V6
  }
  FiberEntity* fibers[kMaxBatch];
  const std::size_t n = global_.PopShare(fibers, queues.batch, &queues.shares);
  queues.taken = static_cast<std::uint32_t>(n);
  if (n == 0) return nullptr;
  queues.counts.CountVisit(n);
  PrefetchShare(fibers, n);  // While only we hold them: from a ring another worker may run them.
  if (n > 1) {
    KeepForLater(queues, fibers + 1, n - 1);
    *must_notify = true;  // V6
  }
  return fibers[0];
}

void PolicyV1::AdaptBatch(WorkerQueues& queues, std::int64_t now) {
  if (queues.taken == queues.batch) {  // Else the last visit brought less than a batch, and its time says nothing.
    const std::int64_t took = now - queues.visited_at.load(std::memory_order_relaxed);
    const bool quick = took < std::chrono::nanoseconds(kBatchTime).count();
    queues.batch = quick ? std::min(queues.batch * 2, kMaxBatch) : std::max(queues.batch / 2, 1u);
  }
  queues.visited_at.store(now, std::memory_order_relaxed);  // A heuristic (V5).
}

// The pop buffer is empty and has room for kMaxBatch, unless the worker looked at others' queues first.
void PolicyV1::KeepForLater(WorkerQueues& queues, FiberEntity* const* fibers, std::size_t count) {
  const std::size_t kept = queues.pop_buffer.PushSome(fibers, static_cast<std::uint32_t>(count));
  if (kept != count) global_.Push(fibers + kept, count - kept);
}

// Moves half of a buffer into the pop buffer of the worker `own`.
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
    WorkerQueues& queues = QueuesOf(w);
    if (&queues == &own) continue;
    const std::int64_t since = now - queues.visited_at.load(std::memory_order_relaxed);
    if (since < std::chrono::nanoseconds(kStuckAfter).count()) continue;
    if (FiberEntity* fiber = TakeFromBuffers(queues, own)) return fiber;
  }
  return nullptr;
}

FiberEntity* PolicyV1::PopFromBusyWorkers(unsigned worker, SpinMemory* memory) {
  return PopFromOthers(worker, memory,
                       [this](WorkerQueues& from, WorkerQueues& own) { return TakeFromBuffers(from, own); });
}

FiberEntity* PolicyV1::Steal(bool* must_notify) {
  if (FiberEntity* fiber = global_.Steal(must_notify)) return fiber;  // V6
  if (workers_ == 1) return nullptr;
  for (WorkerQueues& queues : worker_queues_.objects()) {
    for (Ring* buffer : {&queues.pop_buffer, &queues.push_buffer}) {
      // At most once from end to end, however fast its worker adds.
      for (std::uint32_t tries = kMaxBatch; tries != 0; --tries) {
        FiberEntity* fiber = buffer->Pop();
        if (fiber == nullptr) break;
        if (FiberEntity* found = IfForOthers(fiber, must_notify)) return found;  // V6
      }
    }
  }
  return nullptr;
}

std::vector<std::span<const std::byte>> PolicyV1::Memory() const {
  const auto [normal, woken] = global_.slots();
  return {std::as_bytes(std::span(this, 1)), normal, woken, std::as_bytes(worker_queues_.objects())};
}

}  // namespace weft::scheduling_group
