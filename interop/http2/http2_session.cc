// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Http2Session: the reader and the writer.

#include "weft/interop/http2/http2_session.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <new>
#include <utility>

#include "weft/fiber/fiber.h"
#include "weft/fiber/start/start_fiber.h"
#include "weft/fiber/this_fiber.h"
#include "weft/interop/http2_error.h"
#include "weft/sync/cancel_scope.h"

namespace weft::interop {
namespace {

constexpr std::chrono::seconds kNoWait{0};

bool IsTimedOut(std::error_code error) { return error == std::errc::timed_out; }

}  // namespace

std::error_code Http2Session::Run(Stay stay) {
  Lock lock(mutex_);
  frame_room_.Wake();
  may_leave_ = stay == Stay::kMayLeave;
  has_left_ = false;
  Heard();
  ReadLoop(lock);
  if (has_left_) {
    frame_room_.Sleep();
    return {};
  }
  Shielded([&] {
    ended_ = true;
    CloseAll(why_ ? why_ : make_error_code(Http2Errc::kConnectionLost));
    OnEnded();
    FinishWriting(lock);
    lock.unlock();
    if (peer_reads_) SayGoodbye();
  });
  return why_;
}

void Http2Session::EndWait() {
  const Lock lock(mutex_);
  frame_room_.Wake();
  if (transport_.draining()) return Drain();
  Terminate(NGHTTP2_NO_ERROR, {}, TimeUp::kIdle);
}

void Http2Session::ReadLoop(Lock& lock) {
  CancelScope scope;
  read_scope_ = &scope;
  // Under the lock, as whoever cancels it.
  const std::unique_ptr<CancelScope*, void (*)(CancelScope**)> end(&read_scope_, [](auto** ptr) { *ptr = nullptr; });
  for (;;) {
    Flush(lock);
    EndIfDone();
    if (over_) return;
    const bool request = !looks_for_drain_ && !has_drained_;
    Deadline deadline = std::min(NextTick(), settings_until_);
    if (MayPing() || side_ == Side::kClient) deadline = std::min(deadline, ping_at_);  // H2S13
    if (looks_for_drain_ && !has_drained_) deadline = std::min(deadline, Deadline(kDrainLook));
    lock.unlock();
    io::IoResult got{0, std::make_error_code(std::errc::operation_canceled)};  // If it is cancelled before it reads.
    static_cast<void>(scope.Run([&] { got = ReadNext(deadline, request); }));
    lock.lock();
    if (over_ || has_left_) return;
    if (got.bytes != 0) {
      next_look_ = kKeepRoomFor;
      Receive(read_room_.get(), got.bytes);
      AfterReceive(lock);
      Heard();
    } else {
      OnNothing(got, request, deadline);
    }
    if (transport_.draining()) Drain();
    if (settings_until_.expired()) Terminate(NGHTTP2_SETTINGS_TIMEOUT, Http2Errc::kProtocolError, TimeUp::kSettings);
    OnTick();
    LookForSilence();
  }
}

io::IoResult Http2Session::ReadNext(Deadline deadline, bool request) {
  for (;;) {  // Over TLS bytes that have come may be less than a record.
    if (read_room_ == nullptr) {
      if (const std::error_code error = TakeReadRoom()) return {0, error};
    }
    const Deadline soon(kKeepRoomFor);
    const io::IoResult got = transport_.Read(read_room_.get(), kReadSize, std::min(deadline, soon), request);
    if (!IsTimedOut(got.error) || !soon.expired()) return got;  // The time-out may be the server's, which counts it.
    read_room_.reset();
    if (!may_leave_) {
      const Lock lock(mutex_);
      GiveMemoryBack();
    }
    const std::error_code awaited = may_leave_ ? AwaitOrLeave(deadline, request) : transport_.Await(deadline, request);
    if (awaited) return {0, awaited};
  }
}

std::error_code Http2Session::AwaitOrLeave(Deadline deadline, bool request) {
  for (;; next_look_ = std::min(2 * next_look_, kLongestLook)) {
    const Deadline look(next_look_);
    const Deadline until = std::min(deadline, look);
    Lock lock(mutex_);
    GiveMemoryBack();
    const bool can_leave = CanLeave();
    const Deadline idle_until = NextTick();
    lock.unlock();
    const std::error_code error =
        can_leave ? transport_.AwaitWithoutFiber(until, idle_until) : transport_.Await(until, request);
    has_left_ = can_leave && error == std::errc::resource_unavailable_try_again;
    if (!IsTimedOut(error) || !look.expired() || deadline.expired()) return error;
    // A TlsStream does not see it while a record has begun.
    if (request && transport_.draining()) return std::make_error_code(std::errc::operation_canceled);
  }
}

// That nothing waits to be sent says H2S2: there is no writer.
bool Http2Session::CanLeave() const {
  if (over_ || writing_ || !IsIdle()) return false;
  const bool has_ticks = !settings_until_.is_none() || (options_.ping_after.count() > 0 && MayPing());
  return !has_ticks && !transport_.draining();
}

std::error_code Http2Session::TakeReadRoom() {
  read_room_.reset(new (std::nothrow) char[kReadSize]);
  return read_room_ != nullptr ? std::error_code() : std::make_error_code(std::errc::not_enough_memory);
}

// H2S11
void Http2Session::GiveMemoryBack() {
  if (!writing_) std::string().swap(flight_);
  if (nghttp2_session_want_write(session_) == 0) frame_room_.GiveBack();
  resets_.Forget();
}

void Http2Session::OnNothing(const io::IoResult& got, bool request, Deadline deadline) {
  if (failed_ && got.ok()) return EndWith(write_error_);  // H2S12
  // The peer has finished. A handler that goes on after its answer has nobody to lose.
  if (got.ok()) return EndWith(streams_.empty() ? std::error_code() : Http2Errc::kConnectionLost);
  if (IsTimedOut(got.error)) {
    if (!request || deadline.expired()) return;
    // The server's time-out for idle connections, which does not know of streams.
    if (IsIdle()) return Terminate(NGHTTP2_NO_ERROR, {}, TimeUp::kIdle);
    looks_for_drain_ = true;
    return;
  }
  if (got.error == std::errc::operation_canceled) {
    if (request && transport_.draining() && !has_drained_) return;
    return Terminate(NGHTTP2_CANCEL, got.error);
  }
  if (got.error == std::errc::not_enough_memory) return Terminate(NGHTTP2_INTERNAL_ERROR, got.error);
  peer_reads_ = false;
  EndWith(got.error);
}

void Http2Session::Receive(const char* data, std::size_t size) {
  // What a client's own fibers ask for is bounded by the server's max_concurrent_streams.
  if (side_ == Side::kServer && nghttp2_session_get_outbound_queue_size(session_) > MaxQueuedFrames()) {
    return Terminate(NGHTTP2_ENHANCE_YOUR_CALM, Http2Errc::kFlooded);  // H2S8
  }
  const double empty_frames = empty_frames_.Pass({data, size});
  read_at_ = {};
  const ssize_t done = nghttp2_session_mem_recv(session_, reinterpret_cast<const std::uint8_t*>(data), size);
  // After what has come with them, which may have made room.
  CountEmpty(empty_frames);
  if (flooded_ || done == NGHTTP2_ERR_FLOODED) {
    return Terminate(NGHTTP2_ENHANCE_YOUR_CALM, Http2Errc::kFlooded);  // H2S15
  }
  if (done < 0) Terminate(NGHTTP2_PROTOCOL_ERROR, Http2Errc::kProtocolError);
}

void Http2Session::Heard() {
  pinged_ = false;
  if (options_.ping_after.count() > 0) ping_at_ = options_.ping_after;
}

void Http2Session::LookForSilence() {
  if (!ping_at_.expired()) return;
  if (!MayPing()) {
    if (side_ == Side::kClient) Heard();
    return;
  }
  if (pinged_) return Terminate(NGHTTP2_NO_ERROR, std::make_error_code(std::errc::timed_out), TimeUp::kPing);
  Heard();
  pinged_ = true;
  SubmitPing(NextPing());
}

void Http2Session::Drain() {
  if (std::exchange(has_drained_, true)) return;
  OnDrain();
}

void Http2Session::EndWith(std::error_code error, TimeUp time_up) {
  if (std::exchange(over_, true)) return;
  why_ = error;
  time_up_ = time_up;
  if (read_scope_ != nullptr) read_scope_->Cancel();  // H2S10
}

void Http2Session::EndIfDone() {
  if (nghttp2_session_want_read(session_) == 0) EndWith({});
}

void Http2Session::Terminate(std::uint32_t code, std::error_code error, TimeUp time_up) {
  static_cast<void>(nghttp2_session_terminate_session(session_, code));
  EndWith(error, time_up);
}

void Http2Session::FinishWriting(Lock& lock) {
  Flush(lock);
  // After a clean end answers may still be on their way: as long as a write may take.
  const Deadline limit = why_ ? Deadline(kGoodbye) : Deadline();
  const auto is_done = [this] { return !writing_; };
  if (!written_.wait(lock, is_done, limit)) {
    transport_.Shutdown();  // H2S7
    peer_reads_ = false;
    written_.wait(lock, is_done);
  }
  failed_ = true;  // Nobody becomes the writer any more (H2S9).
}

void Http2Session::SayGoodbye() {
  const Deadline limit(kGoodbye);
  transport_.ShutdownWrite(limit);
  if (side_ == Side::kClient) return;
  // A close with unread bytes would reset the connection, and the client might lose our last words.
  char discarded[4096];
  for (;;) {
    const io::IoResult got = transport_.Read(discarded, sizeof(discarded), limit, /*request=*/false);
    // A read that finds bytes does not look at its deadline: a peer that sends for ever would hold us for ever.
    if (!got.ok() || got.bytes == 0 || limit.expired()) return;
  }
}

void Http2Session::Flush(Lock& lock) {
  if (writing_ || failed_ || nghttp2_session_want_write(session_) == 0) return;  // H2S2
  writing_ = true;
  // The frames of others go out, too, whatever becomes of the caller's scope.
  Shielded([&] { WriteAll(lock, /*borrowed=*/true); });
}

void Http2Session::WriteAll(Lock& lock, bool borrowed) {
  for (bool again = false;; again = true) {
    if (OthersMayWrite()) LetOthersCome(lock);
    Gather();
    if (failed_ || flight_.empty()) break;
    if (borrowed && again) return HandOff(lock);
    if (!WriteFlight(lock, borrowed)) return HandOff(lock);
  }
  writing_ = false;
  written_.notify_all();
}

void Http2Session::LetOthersCome(Lock& lock) {
  if (!IsRunningInFiberWorker()) return;
  lock.unlock();
  FiberYield();
  lock.lock();
}

void Http2Session::Gather() {
  if (!flight_.empty()) return;  // The last writer's.
  while (!failed_ && flight_.size() < kFlight) {
    const std::uint8_t* data = nullptr;
    const ssize_t size = nghttp2_session_mem_send(session_, &data);
    if (size < 0) return Fail(std::make_error_code(std::errc::not_enough_memory));
    if (size == 0) return;
    flight_.append(reinterpret_cast<const char*>(data), static_cast<std::size_t>(size));
  }
}

bool Http2Session::WriteFlight(Lock& lock, bool borrowed) {
  Deadline limit;
  if (borrowed) {
    limit = kNoWait;
  } else if (options_.write_timeout.count() > 0) {
    limit = options_.write_timeout;
  }
  lock.unlock();
  io::IoResult put;
  do {
    put = transport_.Write(flight_.data() + flight_sent_, flight_.size() - flight_sent_, limit);
    flight_sent_ += put.bytes;
  } while (put.ok() && flight_sent_ < flight_.size());
  lock.lock();
  // A transport that has taken all, and not sent it, is called again.
  if (borrowed && IsTimedOut(put.error)) return false;
  if (!put.ok()) {
    // The kernel may say so, too, of a peer that does not answer.
    Fail(put.error, IsTimedOut(put.error) && limit.expired() ? TimeUp::kWrite : TimeUp::kNone);
    return true;
  }
  flight_.clear();
  flight_sent_ = 0;
  if (std::exchange(settings_in_flight_, false) && options_.settings_timeout.count() > 0) {
    settings_until_ = options_.settings_timeout;
  }
  if (std::exchange(has_progressed_, false)) OnProgress();
  EndIfDone();
  return true;
}

void Http2Session::HandOff(Lock& lock) {
  lock.unlock();
  const bool started = fiber::detail::StartNamed("http2 write", [this] {
    Lock own(mutex_);
    WriteAll(own, /*borrowed=*/false);
  });
  lock.lock();
  if (!started) WriteAll(lock, /*borrowed=*/false);  // No fibers are started any more.
}

void Http2Session::Fail(std::error_code error, TimeUp time_up) {
  if (failed_) return;
  failed_ = true;
  flight_.clear();
  flight_sent_ = 0;
  peer_reads_ = false;
  write_error_ = error;
  if (side_ == Side::kServer || error == std::errc::not_enough_memory) EndWith(error, time_up);
  transport_.Shutdown();  // The reader finds what has come, and then the end.
}

}  // namespace weft::interop
