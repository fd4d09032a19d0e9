// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// GrpcClientStream: what a GrpcClientCall is: a call whose messages are streamed, over one attempt after the other.
//
// How it works. Until the answer has begun, the client's messages are kept (`kept_`), as long as they fit in the
// stream's send_buffer. So an attempt that has failed by then can be made again: its messages go into the new stream
// at once, without a wait for the server. What an attempt's answer is, Settle() finds out, for reader and writer alike:
//
//     attempt_ --its answer begins------------------------> settled_    nothing is made again any more
//              --not begun, or a failure of the policy----> (Recover)   another attempt_
//              --any other end----------------------------> status_
//     settled_ --end, error, bad message, Cancel()--------> status_
//
// A write that fails asks Settle(), too: if its attempt has been replaced, its message was kept, and is on its way.
//
// Invariants
//   GW1  attempt_, settled_, status_, kept_ and the marks are touched under mutex_, which is never held over a wait for
//        the server. While is_recovering_ is set, one fiber makes another attempt, and they stay as they are; all
//        others wait for its end.
//   GW2  A message that is in kept_ when Recover() begins is in the new attempt; a writer that put it there under
//        mutex_ has taken its attempt in the same hold, and writes nothing to a later one.
//   GW3  The first status counts. Whoever sets it cancels the attempt's stream, which ends all waits.
//   GW4  inbox_ belongs to the reader.
// Who may call: as GrpcClientCall.
#ifndef WEFT_INTEROP_HTTP2_HTTP2_GRPC_CLIENT_STREAM_H_
#define WEFT_INTEROP_HTTP2_HTTP2_GRPC_CLIENT_STREAM_H_

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "weft/base/deadline.h"
#include "weft/interop/http2/http2_grpc_caller.h"
#include "weft/interop/http2/http2_grpc_inbox.h"
#include "weft/interop/http2_grpc_client.h"
#include "weft/net/retry.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_condition_variable.h"
#include "weft/sync/fiber_mutex.h"

namespace weft::interop {

class GrpcClientStream {
 public:
  GrpcClientStream(GrpcCaller* caller, std::string_view path, const GrpcCallOptions& options);
  ~GrpcClientStream();
  GrpcClientStream(const GrpcClientStream&) = delete;
  GrpcClientStream& operator=(const GrpcClientStream&) = delete;

  // Once, first: the first attempt.
  void Open();

  bool Write(std::string_view framed);
  void WritesDone();
  bool Read(std::string_view* message);
  bool AwaitMetadata();
  GrpcStatus Finish();
  void Cancel();
  // The call ends so, if it has not ended.
  void Fail(GrpcStatus status);

  const GrpcAnswer& answer() const { return answer_; }

 private:
  using Lock = std::unique_lock<FiberMutex>;
  using AttemptPtr = std::shared_ptr<GrpcAttempt>;

  GrpcOrder Order() const {
    return {.path = path_, .metadata = metadata_, .key = key_, .deadline = deadline_, .policy = policy_};
  }
  // How an attempt has failed. kOk, for Recover(): there was none.
  struct Failure {
    GrpcStatus status{};
    bool not_begun = false;
  };

  // Until nobody recovers. False: the caller's cancellation has ended the wait, and the call.
  bool AwaitRecovery(Lock& lock);
  // The attempt whose answer has begun. nullptr: the call has ended.
  AttemptPtr AwaitSettledAttempt();
  // Waits until it is known what becomes of the attempt, and does it.
  void Settle(const AttemptPtr& attempt);
  Failure FailureOf(const AttemptPtr& attempt, std::error_code error);
  // Under mutex_. The answer has begun with `head`.
  void Commit(const Http2Headers& head);
  // Makes another attempt, if it may, or ends the call with the failure. Releases the lock meanwhile.
  void Recover(Lock& lock, Failure failure);
  // For the one that recovers, without mutex_.
  Failure MakeAttempts(Failure failure, AttemptPtr* made);
  bool MayGoOn(const Failure& failure);
  bool PauseForRetry();
  Failure MakeAttempt(AttemptPtr* made);  // kOk: *made has a stream, with all that was kept
  void End(GrpcStatus status);            // under mutex_
  void CancelLocked();                    // under mutex_
  GrpcStatus CancelledOrLate() const;
  // The attempt's answer has ended, or broken off.
  void ReadEnd(const AttemptPtr& attempt, std::error_code error);
  bool Survives(const AttemptPtr& attempt);

  GrpcCaller& caller_;
  const std::string path_;
  const std::string key_;
  const Http2Headers metadata_;
  const Deadline deadline_;
  const GrpcCallPolicy& policy_;
  GrpcTried tried_;

  FiberMutex mutex_;
  FiberConditionVariable recovered_;
  AttemptPtr attempt_;  // nullptr: none has had a stream
  bool settled_ = false;
  std::optional<GrpcStatus> status_;
  bool keeps_ = true;
  std::string kept_;
  bool writes_done_ = false;
  bool is_cancelled_ = false;
  bool is_recovering_ = false;
  CancelScope* recovery_ = nullptr;  // around its waits
  // Of the one that recovers.
  int replays_ = 0;
  std::size_t attempts_ = 0;
  RetryPolicy retry_;
  std::optional<retry_internal::Attempts> pauses_;

  GrpcInbox inbox_;  // GW4
  GrpcAnswer answer_;
};

}  // namespace weft::interop

#endif  // WEFT_INTEROP_HTTP2_HTTP2_GRPC_CLIENT_STREAM_H_
