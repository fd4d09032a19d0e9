// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Controller: what belongs to one call besides its messages, for client and server: its deadline, how it failed,
// whether it is cancelled, and attachments: bytes that go beside the messages, and are not copied into them (frame.h).
//
//     client    Controller controller;
//               controller.set_timeout(50ms);
//               stub.Echo(&controller, &request, &answer, nullptr);
//               if (controller.Failed()) ... controller.error_code(), controller.ErrorText()
//     server    void Echo(RpcController* base, const EchoRequest* request, EchoAnswer* answer, Closure* done) {
//                 auto* controller = static_cast<Controller*>(base);
//                 if (controller->deadline() ...) or controller->SetFailed("...");
//                 done->Run();
//
// One call at a time, one after the other: each begins without the last one's failure, and with its settings until
// Reset(). During a call any fiber and any thread may call StartCancel() and
// IsCanceled(); all else is for the caller, or for the handler.
#ifndef WEFT_EXAMPLES_RPC_RPC_CONTROLLER_H_
#define WEFT_EXAMPLES_RPC_RPC_CONTROLLER_H_

#include <google/protobuf/service.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

#include "weft/base/deadline.h"
#include "weft/base/ref_ptr.h"
#include "weft/examples/rpc/attachment.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_mutex.h"

#include "examples/rpc/meta.pb.h"

namespace weft::rpc {

class ClientConnection;

class Controller final : public google::protobuf::RpcController {
 public:
  Controller();
  ~Controller() override;

  // --- Both sides ---
  // Client: of the present or last call. Server: when nobody waits for the answer any more; calls that the handler
  // makes itself inherit it, since it is that of its scope.
  Deadline deadline() const { return deadline_; }
  bool Failed() const override { return code_ != OK; }
  std::string ErrorText() const override { return text_; }
  ErrorCode error_code() const { return code_; }
  // Client: the call has failed, and it is certain that no handler has seen it.
  bool not_begun() const { return not_begun_; }
  // Client: StartCancel() was called. Server: the client cancelled the call, or has gone.
  bool IsCanceled() const override { return canceled_.load(std::memory_order_relaxed); }  // A hint.
  // Goes with the request: the client sets it before the call, and it stays set until Reset(). The handler may take it.
  // A call's limit of bytes counts it, too.
  Attachment& request_attachment() { return request_attachment_; }
  // Comes with the answer: the handler sets it before `done`; an answer that has failed has none.
  Attachment& answer_attachment() { return answer_attachment_; }

  // --- Client ---
  void Reset() override;
  // Of each call, from its start (default: the channel's); and a point in time that bounds all calls. The deadline of
  // the caller's scopes (sync/cancel_scope.h) counts, too.
  void set_timeout(std::chrono::nanoseconds timeout) { timeout_ = timeout; }
  void set_deadline(Deadline deadline) { latest_ = deadline; }
  // The call ends with CANCELED at once, unless it has ended; before a call: the next one does. The server is told. A
  // call that waits for a connection, or to be made again, notices only when that wait is over.
  void StartCancel() override;

  // --- Server ---
  void SetFailed(const std::string& reason) override { SetFailed(FAILED, reason); }
  void SetFailed(ErrorCode code, std::string reason);
  // `callback` runs in a fiber: when the call is cancelled, or at once if it is already; otherwise after its end. The
  // handler then looks after its cancellation itself: its scope is not cancelled from now on, and has no deadline if it
  // is the handler's first fiber that calls.
  void NotifyOnCancel(google::protobuf::Closure* callback) override;

 private:
  friend class Channel;
  friend class ClientConnection;
  friend class ServerCall;

  // By whoever ends a call before its handler is called.
  void SetNotBegun(ErrorCode code, std::string reason);
  // Client. False: it is cancelled. From then on, until EndCall(), StartCancel() goes to the connection.
  bool BeginCall(ClientConnection* connection, std::uint64_t id);
  void EndCall();
  void ResolveDeadline(std::chrono::nanoseconds default_timeout);
  // Server. Returns the callback that the caller must run, or nullptr. MarkCanceled() cancels the handler's scope,
  // unless the handler looks after itself.
  google::protobuf::Closure* MarkCanceled();
  google::protobuf::Closure* MarkEnded();

  std::chrono::nanoseconds timeout_ = std::chrono::nanoseconds::max();
  Deadline latest_;
  Deadline deadline_;
  ErrorCode code_ = OK;
  std::string text_;
  bool not_begun_ = false;
  Attachment request_attachment_;
  Attachment answer_attachment_;

  std::atomic<bool> canceled_{false};
  FiberMutex mutex_;  // guards what follows, and changes of canceled_
  RefPtr<ClientConnection> connection_;
  std::uint64_t id_ = 0;
  google::protobuf::Closure* on_cancel_ = nullptr;
  bool looks_after_itself_ = false;

  // Server: set before the handler is called. The scope lives as long as the controller.
  CancelScope* scope_ = nullptr;
  std::uint64_t handler_ = 0;  // its fiber's id
};

}  // namespace weft::rpc

#endif  // WEFT_EXAMPLES_RPC_RPC_CONTROLLER_H_
