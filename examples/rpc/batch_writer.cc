// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/examples/rpc/batch_writer.h"

#include <sys/uio.h>

#include <span>
#include <system_error>
#include <utility>

#include "weft/base/report/check.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/this_fiber.h"
#include "weft/sync/cancel_scope.h"

namespace weft::rpc {
namespace {

// Only its address is used: it is no frame's.
alignas(OutFrame) char taken;
OutFrame* const kTaken = reinterpret_cast<OutFrame*>(&taken);

constexpr Deadline AtOnce() { return Deadline::After(std::chrono::nanoseconds(0), {}); }

}  // namespace

BatchWriter::~BatchWriter() {
  WEFT_CHECK(head_.load(std::memory_order_relaxed) == nullptr && to_do_ == nullptr,
             "BatchWriter: destroyed while frames are being sent");
}

bool BatchWriter::Write(OutFramePtr frame, bool alone) {
  if (failed()) return false;
  OutFrame* const mine = frame.release();
  unsent_.fetch_add(mine->size(), std::memory_order_relaxed);  // Before the writer can take it away again.
  OutFrame* head = head_.load(std::memory_order_relaxed);
  do {
    mine->next = head == kTaken ? nullptr : head;
    // release: the frame. Pairs with the acquire in TakeAll(). acquire, for a new writer: to_do_ and its neighbours as
    // the last writer left them; pairs with the release in TryEnd().
  } while (!head_.compare_exchange_weak(head, mine, std::memory_order_acq_rel, std::memory_order_relaxed));
  if (head != nullptr) return true;  // The writer will see it (BW1).
  owner_->BeginUse();                // The caller holds one.
  // The frames of others go out, too, whatever becomes of the caller's scope.
  Shielded([&] { WriteAll(/*borrowed=*/true, alone); });
  return true;
}

void BatchWriter::WriteAll(bool borrowed, bool alone) {
  for (int round = 0;; ++round) {
    if (borrowed && round == kRoundsForOthers) return HandOff();
    if (to_do_ == nullptr) {
      if (!std::exchange(alone, false)) LetOthersCome();
      TakeAll();
    }
    if (failed()) {
      DropToDo();
    } else if (!WriteToDo(borrowed ? AtOnce() : Deadline(options_.timeout))) {
      return HandOff();
    }
    Owner* const owner = owner_;
    if (TryEnd()) {
      owner->EndUse();  // BW4
      return;
    }
  }
}

void BatchWriter::LetOthersCome() {
  if (!IsRunningInFiberWorker()) return;
  if (at_once_ > 0) {
    --at_once_;
    return;
  }
  const auto before = std::chrono::steady_clock::now();
  FiberYield();
  if (std::chrono::steady_clock::now() - before > kMaxHold) at_once_ = kAtOnce;
}

void BatchWriter::TakeAll() {
  // acquire: the frames. Pairs with the release in Write().
  OutFrame* newest = head_.exchange(kTaken, std::memory_order_acquire);
  if (newest == kTaken) return;
  OutFrame* oldest = nullptr;
  std::uint64_t count = 0;
  for (OutFrame* frame = newest; frame != nullptr; ++count)
    oldest = std::exchange(frame, std::exchange(frame->next, oldest));
  to_do_ = oldest;
  frames_.store(frames_.load(std::memory_order_relaxed) + count, std::memory_order_relaxed);
}

bool BatchWriter::TryEnd() {
  OutFrame* expected = kTaken;
  // release: what a writer keeps. Pairs with the acquire in Write().
  return head_.compare_exchange_strong(expected, nullptr, std::memory_order_release, std::memory_order_relaxed);
}

// False: the kernel takes no more now, and the deadline was AtOnce().
bool BatchWriter::WriteToDo(Deadline deadline) {
  while (to_do_ != nullptr) {
    iovec parts[kMaxParts];
    std::size_t count = 0;
    for (OutFrame* frame = to_do_; frame != nullptr && count < kMaxParts; frame = frame->next) {
      count += frame->FillIovecs(std::span(parts).subspan(count), frame == to_do_ ? sent_of_first_ : 0);
    }
    const io::IoResult result = stream_->WriteSome(parts, count, deadline);
    writes_.store(writes_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    if (!result.ok()) {
      if (result.error == std::errc::timed_out && deadline == AtOnce()) return false;
      Fail();
      return true;
    }
    Sent(result.bytes);
  }
  return true;
}

void BatchWriter::Sent(std::size_t bytes) {
  std::size_t left = bytes + sent_of_first_;
  while (to_do_ != nullptr && left >= to_do_->size()) {
    left -= to_do_->size();
    FrameDeleter()(std::exchange(to_do_, to_do_->next));
  }
  sent_of_first_ = left;
  // relaxed: a waiter for room learns of it by the event.
  const std::size_t before = unsent_.fetch_sub(bytes, std::memory_order_relaxed);
  if (before > options_.max_unsent && before - bytes <= options_.max_unsent) room_.Set();
}

void BatchWriter::HandOff() {
  if (StartFiberDetached([this] { WriteAll(/*borrowed=*/false, /*alone=*/false); })) return;
  WriteAll(/*borrowed=*/false, /*alone=*/false);  // No more fibers are started: then in the caller's.
}

void BatchWriter::Fail() {
  failed_.store(true, std::memory_order_relaxed);  // A missed failure only adds a frame to the list, which drops it.
  static_cast<void>(stream_->Shutdown());
  DropToDo();
  room_.Set();
}

void BatchWriter::DropToDo() {
  std::size_t bytes = 0;
  while (to_do_ != nullptr) {
    bytes += to_do_->size();
    FrameDeleter()(std::exchange(to_do_, to_do_->next));
  }
  unsent_.fetch_sub(bytes - sent_of_first_, std::memory_order_relaxed);
  sent_of_first_ = 0;
}

void BatchWriter::WaitForRoom() {
  while (TooMuchUnsent() && !failed()) {
    room_.Reset();  // The loop sees frames sent before a Set() that this undoes (EV3 in fiber_event.h).
    if (TooMuchUnsent() && !failed()) room_.Wait();
  }
}

}  // namespace weft::rpc
