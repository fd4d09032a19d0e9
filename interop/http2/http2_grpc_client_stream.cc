// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/interop/http2/http2_grpc_client_stream.h"

#include <algorithm>
#include <span>
#include <utility>

#include "weft/interop/http2/http2_grpc_requests.h"
#include "weft/interop/http2/http2_grpc_wire.h"
#include "weft/interop/http2_error.h"
#include "weft/sync/fiber_cancelled.h"

namespace weft::interop {
namespace {

GrpcStatus Cancelled() { return {GrpcCode::kCancelled, "the call was cancelled"}; }

}  // namespace

// Also by the deadline of a scope, which is the call's, too.
GrpcStatus GrpcClientStream::CancelledOrLate() const {
  return deadline_.expired() ? GrpcStatusOfCall(std::make_error_code(std::errc::timed_out), 0, deadline_) : Cancelled();
}

GrpcClientStream::GrpcClientStream(GrpcCaller* caller, std::string_view path, const GrpcCallOptions& options)
    : caller_(*caller),
      path_(path),
      key_(options.key),
      metadata_(options.metadata),
      deadline_(caller->DeadlineOf(options)),
      policy_(caller->PolicyOf(options)),
      retry_(policy_.retry),
      inbox_(caller->options().max_message) {
  caller_.EnterCall();
  if (retry_.budget == nullptr) retry_.budget = caller_.budget();
  if (retry_.max_attempts > 1) pauses_.emplace(retry_);
}

GrpcClientStream::~GrpcClientStream() {
  attempt_.reset();  // Resets its stream.
  caller_.LeaveCall();
}

void GrpcClientStream::Open() {
  Lock lock(mutex_);
  if (HasReservedField(metadata_)) return End({GrpcCode::kInternal, "metadata that may not be sent"});
  Recover(lock, {});
}

// --- Attempts ---

bool GrpcClientStream::AwaitRecovery(Lock& lock) {
  try {
    recovered_.wait(lock, [this] { return !is_recovering_; });
    return true;
  } catch (const FiberCancelled&) {  // The lock is held.
    CancelLocked();
    return false;
  }
}

void GrpcClientStream::Recover(Lock& lock, Failure failure) {
  CancelScope scope;
  AttemptPtr made;
  is_recovering_ = true;
  recovery_ = &scope;
  lock.unlock();
  scope.Run([&] { failure = MakeAttempts(std::move(failure), &made); });
  lock.lock();
  is_recovering_ = false;
  recovery_ = nullptr;
  if (is_cancelled_) failure.status = CancelledOrLate();  // In a thread no scope ends what waits.
  if (failure.status.ok()) {
    answer_.server = made->backend().name();
    attempt_.swap(made);
  } else {
    End(std::move(failure.status));
  }
  recovered_.notify_all();
  // Its connection may go with it.
  lock.unlock();
  made.reset();
  lock.lock();
}

GrpcClientStream::Failure GrpcClientStream::MakeAttempts(Failure failure, AttemptPtr* made) {
  if (failure.status.ok()) {
    attempts_ = 1;
    caller_.CountAttempt();
    failure = MakeAttempt(made);
  }
  while (!failure.status.ok() && keeps_ && MayGoOn(failure)) failure = MakeAttempt(made);
  if (!failure.status.ok() && IsCancelRequested() && !deadline_.expired()) failure.status = Cancelled();
  return failure;
}

bool GrpcClientStream::MayGoOn(const Failure& failure) {
  if (failure.not_begun && replays_ < GrpcCaller::kMostReplays) {
    ++replays_;
    caller_.CountReplay();
    return true;
  }
  if (!policy_.codes.contains(failure.status.code) || !PauseForRetry()) return false;
  ++attempts_;
  caller_.CountAttempt();
  return true;
}

bool GrpcClientStream::PauseForRetry() {
  if (!pauses_.has_value() || deadline_.expired()) return false;
  retry_.max_backoff = std::min(retry_.max_backoff, deadline_.remaining());
  try {
    return pauses_->Again();
  } catch (const FiberCancelled&) {
    return false;  // As calls of io/ do; MakeAttempts() says so.
  }
}

GrpcClientStream::Failure GrpcClientStream::MakeAttempt(AttemptPtr* made) {
  auto attempt = std::make_shared<GrpcAttempt>();
  Failure failure;
  failure.status = caller_.Begin(Order(), &tried_, attempt.get(), &failure.not_begun);
  if (!failure.status.ok()) return failure;
  const Http2RequestHead head = MakeGrpcHead(attempt->Where(path_), deadline_, attempts_ - 1, metadata_);
  const Deadline deadline = AsLongAs(deadline_);
  if (const std::error_code error = attempt->connection->http.Open(head, &attempt->call, deadline)) {
    return FailureOf(attempt, error);
  }
  // There is room for all of it. What goes wrong is found by Settle(): it may be an answer.
  if (!kept_.empty()) static_cast<void>(attempt->call.Write(kept_, deadline));
  if (writes_done_) static_cast<void>(attempt->call.Finish());
  *made = std::move(attempt);
  return {};
}

GrpcClientStream::Failure GrpcClientStream::FailureOf(const AttemptPtr& attempt, std::error_code error) {
  attempt->Report(error, false, deadline_);
  const bool not_begun = error == Http2Errc::kNotBegun;
  caller_.LookUpIfLost(*attempt);
  const std::uint32_t reset_code = attempt->call.IsOpen() ? attempt->call.reset_code() : 0;
  return {.status = GrpcStatusOfCall(error, reset_code, deadline_), .not_begun = not_begun};
}

void GrpcClientStream::Settle(const AttemptPtr& attempt) {
  const std::error_code error = attempt->call.AwaitAnswer(AsLongAs(deadline_));
  Lock lock(mutex_);
  if (!AwaitRecovery(lock) || status_.has_value() || settled_ || attempt_ != attempt) return;
  if (error) return Recover(lock, FailureOf(attempt, error));
  const Http2Headers& head = attempt->call.headers();
  std::optional<GrpcStatus> status = GrpcStatusOfHead(head);
  attempt->Report({}, !status.has_value() || head.Has("grpc-status") || status->code != GrpcCode::kUnavailable,
                  deadline_);
  answer_.metadata = head;
  if (!status.has_value() || status->ok()) return Commit(head);
  answer_.trailers = head;
  if (ForbidsGrpcRetry(head, {})) return End(*std::move(status));
  Recover(lock, {.status = *std::move(status)});
}

void GrpcClientStream::Commit(const Http2Headers& head) {
  settled_ = true;
  keeps_ = false;
  std::string().swap(kept_);
  if (head.Find("grpc-encoding") == "gzip") inbox_.AllowGzip();
}

void GrpcClientStream::End(GrpcStatus status) {
  if (status_.has_value()) return;
  status_ = std::move(status);
  keeps_ = false;
  std::string().swap(kept_);
  answer_.attempts = attempts_;
  if (attempt_ != nullptr) attempt_->call.Cancel();  // GW3
}

GrpcClientStream::AttemptPtr GrpcClientStream::AwaitSettledAttempt() {
  for (;;) {
    AttemptPtr attempt;
    {
      Lock lock(mutex_);
      if (!AwaitRecovery(lock) || status_.has_value()) return nullptr;
      attempt = attempt_;
      if (settled_) return attempt;
    }
    Settle(attempt);
  }
}

// --- Messages ---

bool GrpcClientStream::Write(std::string_view framed) {
  AttemptPtr attempt;
  {
    Lock lock(mutex_);
    if (!AwaitRecovery(lock) || status_.has_value() || writes_done_) return false;
    if (framed.empty()) {
      End({GrpcCode::kInternal, "a message of 2 GiB or more"});
      return false;
    }
    keeps_ = keeps_ && kept_.size() + framed.size() <= caller_.options().http2.send_buffer;
    if (keeps_) {
      kept_.append(framed);  // GW2
    } else {
      std::string().swap(kept_);
    }
    attempt = attempt_;
  }
  return attempt->call.Write(framed, AsLongAs(deadline_)).ok() || Survives(attempt);
}

bool GrpcClientStream::Survives(const AttemptPtr& attempt) {
  Settle(attempt);
  Lock lock(mutex_);
  return AwaitRecovery(lock) && !status_.has_value() && attempt_ != attempt;
}

void GrpcClientStream::WritesDone() {
  AttemptPtr attempt;
  {
    Lock lock(mutex_);
    if (!AwaitRecovery(lock) || status_.has_value() || writes_done_) return;
    writes_done_ = true;
    attempt = attempt_;
  }
  static_cast<void>(attempt->call.Finish());  // If the stream has ended, Settle() finds out why.
}

bool GrpcClientStream::AwaitMetadata() {
  if (AwaitSettledAttempt() != nullptr) return true;
  const Lock lock(mutex_);
  return settled_;
}

bool GrpcClientStream::Read(std::string_view* message) {
  const AttemptPtr attempt = AwaitSettledAttempt();
  while (attempt != nullptr) {
    switch (inbox_.Take(message)) {
      case GrpcInbox::Took::kMessage:
        return true;
      case GrpcInbox::Took::kFailed:
        Fail(inbox_.failure());
        return false;
      case GrpcInbox::Took::kNeedsMore:
        break;
    }
    const std::span<char> room = inbox_.Room();
    const io::IoResult got = attempt->call.Read(room.data(), room.size(), AsLongAs(deadline_));
    inbox_.Put(got.bytes);
    if (got.bytes != 0) continue;
    ReadEnd(attempt, got.error);
    break;
  }
  return false;
}

void GrpcClientStream::ReadEnd(const AttemptPtr& attempt, std::error_code error) {
  if (error) return Fail(FailureOf(attempt, error).status);
  const Http2Headers& fields = GrpcEnd(attempt->call.headers(), attempt->call.trailers());
  GrpcStatus status = GrpcStatusOfTrailers(fields);
  if (status.ok() && inbox_.has_part()) status = {GrpcCode::kInternal, "a message was cut short"};
  const Lock lock(mutex_);
  answer_.trailers = fields;
  End(std::move(status));
}

GrpcStatus GrpcClientStream::Finish() {
  WritesDone();
  std::string_view dropped;
  while (Read(&dropped)) {
  }
  Lock lock(mutex_);
  if (AwaitRecovery(lock)) End(Cancelled());  // Unless it has ended, as it mostly has.
  return status_.value_or(Cancelled());
}

void GrpcClientStream::Fail(GrpcStatus status) {
  const Lock lock(mutex_);
  End(std::move(status));
}

void GrpcClientStream::Cancel() {
  const Lock lock(mutex_);
  CancelLocked();
}

void GrpcClientStream::CancelLocked() {
  is_cancelled_ = true;
  if (recovery_ != nullptr) recovery_->Cancel();
  if (!is_recovering_) End(CancelledOrLate());
}

}  // namespace weft::interop
